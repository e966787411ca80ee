"""A transaction that applies the changes of several callers."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from jazzmine.backends.sqlite.errors import is_busy, translated
from jazzmine.change import Change
from jazzmine.errors import JazzmineError

__all__ = ["Write", "apply_all", "begin", "fail_late", "undo", "write_unchanged"]

Write: TypeAlias = "Change[sqlite3.Connection]"


def begin(connection: sqlite3.Connection, path: str) -> bool:
    """Begin a write transaction, and return True, unless another process writes.

    Args:
        connection: one that autocommits, and that no other thread uses meanwhile.
        path: the file of the database, for error messages.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        if is_busy(error):
            return False
        raise translated(error, path) from error
    return True


def apply_all(
    connection: sqlite3.Connection, changes: Sequence[Write], path: str, *, apart: bool = False
) -> bool:
    """Apply claimed changes; one that fails gets its error, and is undone without the others.

    Args:
        connection, path: as for `begin`; a transaction has begun.
        changes: called with the connection.
        apart: whether each has a savepoint. They cost more than most changes do: they are for a
            change that failed after it had written something, which is rare.

    Returns:
        False if another process has begun to write meanwhile; the transaction has ended.
    """
    for change in changes:
        if apart:
            connection.execute("SAVEPOINT change")
        written = connection.total_changes
        change.error = None
        try:
            change.result = change.apply(connection)
        except (JazzmineError, ValueError) as error:
            change.error = error
        except (sqlite3.DataError, OverflowError) as error:
            change.error = translated(error, path)
        if apart:
            if change.error is not None:
                connection.execute("ROLLBACK TO change")
            connection.execute("RELEASE change")
        elif change.error is not None and connection.total_changes != written:
            connection.execute("ROLLBACK")
            return begin(connection, path) and apply_all(connection, changes, path, apart=True)
    return True


def undo(connection: sqlite3.Connection) -> None:
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


def fail_late(
    changes: Sequence[Write], timeout: float, error: Callable[[float], Exception]
) -> None:
    """Set the error of the changes that have waited longer than `timeout` s for a lock."""
    earliest = time.monotonic() - timeout
    for change in changes:
        if change.since <= earliest and change.claim():
            change.error = error(timeout)
