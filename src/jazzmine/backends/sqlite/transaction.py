"""A transaction that applies the changes of several callers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from jazzmine.backends.sqlite.connection import Connection
from jazzmine.backends.sqlite.errors import is_busy, translated
from jazzmine.change import Change
from jazzmine.errors import JazzmineError

__all__ = ["Transaction", "UnflushedWrite", "Write", "write_unchanged"]

Write: TypeAlias = "Change[sqlite3.Connection]"


@dataclass(frozen=True)
class UnflushedWrite:
    """What changes the database without waiting for the disk.

    Args:
        function: called with a connection; a transaction has begun.
    """

    function: Callable[[sqlite3.Connection], Any]

    def __call__(self, connection: sqlite3.Connection) -> Any:
        """Call the function."""
        return self.function(connection)


class Transaction:
    """A write transaction, which is rolled back unless it was committed.

    Args:
        writer: the connection, whose lock is held.
        path: the file of the database.
        flush: whether the commit waits for the disk, if the database does so at all.
    """

    def __init__(self, writer: Connection, path: str, flush: bool = True) -> None:
        self._writer = writer
        self._path = path
        self._flush = flush

    def __enter__(self) -> Transaction:
        try:
            self._connection = self._writer.driver()
            if self._connection.in_transaction:  # the one before was interrupted
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        return self

    def __exit__(self, *error: object) -> None:
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def begin(self) -> bool:
        """Begin, and return True, unless another process writes."""
        try:
            self._writer.set_flush(self._flush)
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if is_busy(error):
                return False
            raise translated(error, self._path) from error
        self._writer.note_log()
        return True

    def commit(self, changes: Sequence[Write]) -> bool:
        """Apply the changes to the database; one that fails is undone without the others.

        Returns:
            False if another process has begun to write meanwhile; nothing changed.

        Raises:
            OSError, MemoryError: the file could not be written; nothing changed.
        """
        connection = self._connection
        try:
            if not self._apply_all(changes, connection):
                # Savepoints cost more than most changes do: they are for a change that failed
                # after it had written something, which is rare.
                connection.execute("ROLLBACK")
                if not self.begin():
                    return False
                for change in changes:
                    self._apply_or_undo(change, connection)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo(connection)
            raise translated(error, self._path) from error
        return True

    def _apply_all(self, changes: Sequence[Write], connection: sqlite3.Connection) -> bool:
        """Apply the changes; return False if one failed after it had written something."""
        for change in changes:
            written = connection.total_changes
            if not self._apply(change, connection) and connection.total_changes != written:
                return False
        return True

    def _apply_or_undo(self, change: Write, connection: sqlite3.Connection) -> None:
        connection.execute("SAVEPOINT change")
        if not self._apply(change, connection):
            connection.execute("ROLLBACK TO change")
        connection.execute("RELEASE change")

    def _apply(self, change: Write, connection: sqlite3.Connection) -> bool:
        """Return whether the change was applied, or else set its error."""
        change.error = None
        try:
            change.result = change.apply(connection)
        except (JazzmineError, ValueError) as error:
            change.error = error
        except (sqlite3.DataError, OverflowError) as error:
            change.error = translated(error, self._path)
        else:
            return True
        return False

    def _undo(self, connection: sqlite3.Connection) -> None:
        """Make sure that a transaction which failed has no effect after a crash, either.

        If the disk failed to flush it, the end of the -wal file holds it as a whole, and would be
        read after a crash. The next transaction is written over it.
        """
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            write_unchanged(connection)


def write_unchanged(connection: sqlite3.Connection) -> None:
    """Write a page that stays as it is, so that the commit writes to the disk in any case."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version}")
