"""A write transaction that makes the changes of several calls."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from jazzmine.backends.sqlite.errors import is_busy, translated
from jazzmine.backends.sqlite.writer import Call

__all__ = ["apply_all", "begin", "undo"]


def begin(connection: sqlite3.Connection) -> bool:
    """Begin a write transaction, and return True, unless another process writes."""
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        if is_busy(error):
            return False
        raise
    return True


def apply_all(connection: sqlite3.Connection, calls: Sequence[Call[Any]], path: str) -> None:
    """Make the changes of calls; one that fails is undone without the others.

    Args:
        connection: in a write transaction.
        calls: those that were not cancelled get a result or an error.
        path: the file of the database, for error messages.

    Raises:
        sqlite3.Error: the transaction has ended.
    """
    for call in calls:
        if not call.begin():
            continue
        connection.execute("SAVEPOINT call")
        try:
            call.result = call.change(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO call")
            call.error = translated(error, path)
        connection.execute("RELEASE call")


def undo(connection: sqlite3.Connection) -> None:
    """Make sure that a transaction which failed has no effect after a crash, either.

    If the disk failed to flush it, the end of the -wal file holds it as a whole, and would be
    read after a crash. The next transaction is written over it.
    """
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version}")
