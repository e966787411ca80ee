"""A transaction that applies the changes of several callers."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from jazzmine.backends.sqlite.errors import is_busy, translated
from jazzmine.change import Change
from jazzmine.errors import JazzmineError

__all__ = ["Transaction", "UnflushedWrite", "Write", "fail_late", "write_unchanged"]

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
    """A write transaction on a connection that no other thread uses meanwhile.

    Args:
        connection: one that autocommits.
        path: the file of the database, for error messages.
    """

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path

    def begin(self) -> bool:
        """Begin, and return True, unless another process writes."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if is_busy(error):
                return False
            raise translated(error, self._path) from error
        return True

    def apply(self, changes: Sequence[Write]) -> bool:
        """Apply claimed changes; one that fails gets its error, and is undone without the others.

        Returns:
            False if another process has begun to write meanwhile; the transaction has ended.
        """
        connection = self._connection
        if self._apply_all(changes):
            return True
        # Savepoints cost more than most changes do: they are for a change that failed after it had
        # written something, which is rare.
        connection.execute("ROLLBACK")
        if not self.begin():
            return False
        for change in changes:
            connection.execute("SAVEPOINT change")
            if not self._apply(change):
                connection.execute("ROLLBACK TO change")
            connection.execute("RELEASE change")
        return True

    def _apply_all(self, changes: Sequence[Write]) -> bool:
        """Apply the changes; return False if one failed after it had written something."""
        for change in changes:
            written = self._connection.total_changes
            if not self._apply(change) and self._connection.total_changes != written:
                return False
        return True

    def _apply(self, change: Write) -> bool:
        """Return whether the change was applied, or else set its error."""
        change.error = None
        try:
            change.result = change.apply(self._connection)
        except (JazzmineError, ValueError) as error:
            change.error = error
        except (sqlite3.DataError, OverflowError) as error:
            change.error = translated(error, self._path)
        else:
            return True
        return False

    def commit(self) -> None:
        """Commit; after an error nothing has changed."""
        self._connection.execute("COMMIT")

    def undo(self) -> None:
        """Make sure that a transaction which failed has no effect after a crash, either.

        If the disk failed to flush it, the end of the -wal file holds it as a whole, and would be
        read after a crash. The next transaction is written over it.
        """
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            write_unchanged(self._connection)


def write_unchanged(connection: sqlite3.Connection) -> None:
    """Write a page that stays as it is, so that the commit writes to the disk in any case."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version}")


def fail_late(
    changes: Sequence[Write], timeout: float, error: Callable[[float], Exception]
) -> None:
    """Set the error of the changes that have waited longer than `timeout` s for a lock."""
    earliest = time.monotonic() - timeout
    for change in changes:
        if change.since <= earliest and change.claim():
            change.error = error(timeout)
