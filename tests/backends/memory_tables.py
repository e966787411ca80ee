"""Working memory in tables: its stores through both APIs, and its rows without the library."""

from __future__ import annotations

import json
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from jazzmine.core import working_memory as core
from jazzmine.sync import working_memory as sync
from tests.backends.redis_apis import Opened
from tests.servers import pgbouncer, postgres

__all__ = [
    "APIS",
    "BACKENDS",
    "Config",
    "PostgresRows",
    "Rows",
    "SQLiteRows",
    "open_sync",
    "opened_backend",
]

Config = Mapping[str, Any]


def open_async(config: Config, **options: Any) -> Any:
    """Open an async store, with sync calls."""
    return Opened(lambda: core.WorkingMemoryStore.initialize({**config, **options}))


def open_sync(config: Config, **options: Any) -> Any:
    """Open a sync store."""
    return sync.WorkingMemoryStore.initialize({**config, **options})


APIS = [open_async, open_sync]
BACKENDS = ["postgres", "pgbouncer", "sqlite"]


@contextmanager
def opened_backend(name: str, folder: Path) -> Iterator[tuple[Config, Rows]]:
    """Provide the configuration of an empty store, and access to its rows."""
    if name == "sqlite":
        path = folder / "agent.db"
        yield {"storage": "sqlite", "path": str(path)}, SQLiteRows(path)
        return
    with postgres.empty_schema() as schema:
        options: Config = {"dsn": postgres.dsn()}
        if name == "pgbouncer":
            options = {"dsn": pgbouncer.running(), "prepare": False}
        yield {"storage": "postgres", "schema": schema, **options}, PostgresRows(schema)


class Rows(ABC):
    """The rows of the conversation "c", read and changed without the library."""

    locks: str
    token: str
    blob: Callable[[bytes], Any] = bytes

    @abstractmethod
    def run(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement with `?` for parameters, and return its rows."""

    @abstractmethod
    def after(self, seconds: float) -> Any:
        """Return a time as the tables have it."""

    def holder(self) -> str | None:
        """Return the token that holds the lock."""
        rows = self.run(f"SELECT {self.token} FROM {self.locks} WHERE conversation_id = 'c'")
        return rows[0][0] if rows else None

    def queue(self) -> list[str]:
        """Return the tokens that wait for the lock, in order."""
        [(queue,)] = self.run(f"SELECT queue FROM {self.locks} WHERE conversation_id = 'c'")
        entries = queue if isinstance(queue, dict) else json.loads(queue)
        return sorted(entries, key=lambda token: entries[token][0])

    @abstractmethod
    def take_lock(self, token: str | None, seconds: float = 60) -> None:
        """Have another token hold the lock, or none."""

    def data(self) -> bytes | None:
        """Return the JSON of the state."""
        rows = self.run("SELECT data FROM working_memory WHERE conversation_id = 'c'")
        return rows[0][0] if rows else None

    def put(self, data: bytes) -> None:
        """Replace the JSON of the state."""
        self.run("UPDATE working_memory SET data = ? WHERE conversation_id = 'c'", data)

    def corrupt(self) -> list[tuple[Any, ...]]:
        """Return what was set aside: conversation, user and data."""
        return self.run("SELECT conversation_id, user_id, data FROM working_memory_corrupt")


class PostgresRows(Rows):
    """In PostgreSQL; the lock is in the row of the state."""

    locks, token = "working_memory", "lock_token"

    def __init__(self, schema: str) -> None:
        self._schema = schema

    def run(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with postgres.connect(postgres.dsn()) as connection:
            connection.execute("SELECT set_config('search_path', %s, false)", [self._schema])
            cursor = connection.execute(sql.replace("?", "%s").encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def after(self, seconds: float) -> Any:
        return self.run("SELECT clock_timestamp() + ? * interval '1 second'", seconds)[0][0]

    def take_lock(self, token: str | None, seconds: float = 60) -> None:
        self.run(
            "UPDATE working_memory SET lock_token = ?, lock_expires_at = ?"
            " WHERE conversation_id = 'c'",
            token,
            self.after(seconds),
        )


class SQLiteRows(Rows):
    """In an SQLite database; the lock has a row of its own."""

    locks, token = "working_memory_locks", "token"

    def __init__(self, path: Path) -> None:
        self._path = path

    def run(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            return connection.execute(sql, parameters).fetchall()

    def after(self, seconds: float) -> Any:
        return time.time() + seconds

    def take_lock(self, token: str | None, seconds: float = 60) -> None:
        self.run(
            "UPDATE working_memory_locks SET token = ?, expires_at = ? WHERE conversation_id = 'c'",
            token,
            self.after(seconds),
        )
