"""What tests of SQLite's message store have in common."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from jazzmine.sync.message_store import MessageStore, SQLiteMessageStore


def opened(path: Path) -> SQLiteMessageStore:
    """Open a store."""
    store = MessageStore.initialize({"storage": "sqlite", "path": str(path)})
    assert isinstance(store, SQLiteMessageStore)
    return store


def execute(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """Execute statements without a store, and return the rows of the last."""
    rows: list[tuple[object, ...]] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            rows = connection.execute(statement).fetchall()
    return rows
