"""Working memory in tables and in Redis: its stores, and its rows without the library."""

from __future__ import annotations

import itertools
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import redis

from jazzmine.sync import working_memory as sync
from tests.servers import postgres
from tests.servers import redis as redis_server

Config = Mapping[str, Any]


def open_sync(config: Config, **options: Any) -> Any:
    """Open a sync store."""
    return sync.WorkingMemoryStore.initialize({**config, **options})


_numbers = itertools.count(1)

# The token of the lock of another store.
TOKEN = "0123456789abcdef"

BACKENDS = ["postgres", "sqlite", "redis"]


@contextmanager
def opened_backend(name: str, folder: Path) -> Iterator[tuple[Config, Any]]:
    """Provide the configuration of an empty store, and access to its rows, or to Redis' locks."""
    if name == "redis":
        with redis_server.database() as url:
            yield {"storage": "redis", "url": url}, RedisLocks(url)
        return
    if name == "sqlite":
        path = folder / "agent.db"
        yield {"storage": "sqlite", "path": str(path)}, SQLiteRows(path)
        return
    with postgres.empty_schema() as schema:
        rows = PostgresRows(schema)
        yield rows.config, rows


class RedisLocks:
    """The lock and the state of "c" in Redis, read and changed without the library."""

    def __init__(self, url: str) -> None:
        self._client: Any = redis.Redis.from_url(url)

    def holder(self) -> str | None:
        lock = self._client.get("wm_lock:{c}")
        return None if lock is None else str(lock.partition(b" ")[0], "ascii")

    def take_lock(self, store: str, seconds: float = 60) -> None:
        since = int(time.time() * 1000)
        lock = f"{TOKEN} {since} the store {store!r}"
        self._client.set("wm_lock:{c}", lock, px=int(seconds * 1000))

    def end_lock(self) -> None:
        self._client.delete("wm_lock:{c}")

    def expire(self, seconds: float = -1) -> None:
        for key in self._client.keys("wm:*"):
            self._client.pexpire(key, int(seconds * 1000))

    def lasts(self) -> float:
        return float(self._client.pttl("wm:{c}")) / 1000

    def beside(self) -> tuple[Any, ...]:
        user, number = self._client.hmget("wm:{c}", "user", "format")
        return user.decode(), int(number)

    def data(self) -> bytes | None:
        data: bytes | None = self._client.hget("wm:{c}", "data")
        return data

    def put(self, data: bytes) -> None:
        new = {"data": data, "marks": f"{next(_numbers):016x}"}
        self._client.hset("wm:{c}", mapping=new)


class Rows(ABC):
    """The rows of the conversation "c", read and changed without the library."""

    @abstractmethod
    def run(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement with `?` for parameters, and return its rows."""

    @abstractmethod
    def elapse(self, seconds: float) -> None:
        """Have all that is stored expire so many s earlier."""

    @abstractmethod
    def after(self, seconds: float) -> Any:
        """Return a time as the tables have it."""

    def locked(self) -> list[Any]:
        """Return the conversations whose lock is held."""
        return [row[0] for row in self._locks()]

    def _locks(self) -> list[tuple[Any, ...]]:
        return self.run(
            "SELECT conversation_id, lock_token FROM working_memory WHERE lock_token IS NOT NULL"
            " AND lock_expires_at > ?",
            self.after(0),
        )

    def holder(self) -> str | None:
        tokens = [token for conversation_id, token in self._locks() if conversation_id == "c"]
        return tokens[0] if tokens else None

    def take_lock(self, store: str, seconds: float = 60) -> None:
        self.run(
            "UPDATE working_memory SET lock_token = ?, lock_holder = ?, lock_taken_at = ?,"
            " lock_expires_at = ?",
            *(TOKEN, f"the store {store!r}", self.after(0), self.after(seconds)),
        )

    def end_lock(self) -> None:
        self.run("UPDATE working_memory SET lock_expires_at = ?", self.after(-1))

    def expire(self, seconds: float = -1) -> None:
        self.run("UPDATE working_memory SET expires_at = ?", self.after(seconds))

    def lasts(self) -> float:
        [(expires_at,)] = self.run(
            "SELECT expires_at FROM working_memory WHERE conversation_id = 'c'"
        )
        return self._left(expires_at)

    def _left(self, expires_at: Any) -> float:
        left = expires_at - self.after(0)
        return float(left if isinstance(left, float) else left.total_seconds())

    def beside(self) -> tuple[Any, ...]:
        return self.run("SELECT user_id, format FROM working_memory WHERE conversation_id = 'c'")[0]

    def data(self) -> bytes | None:
        rows = self.run("SELECT data FROM working_memory WHERE conversation_id = 'c'")
        return rows[0][0] if rows else None

    def put(self, data: bytes) -> None:
        statement = "UPDATE working_memory SET data = ?, marks = ? WHERE conversation_id = 'c'"
        self.run(statement, data, f"{next(_numbers):016x}")


class PostgresRows(Rows):
    """In PostgreSQL."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self.config: Config = {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema}

    def run(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with postgres.connect(postgres.dsn()) as connection:
            connection.execute("SELECT set_config('search_path', %s, false)", [self._schema])
            cursor = connection.execute(sql.replace("?", "%s").encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def elapse(self, seconds: float) -> None:
        self.run(
            "UPDATE working_memory SET expires_at = expires_at - ? * interval '1 second',"
            " sweep_after = sweep_after - ? * interval '1 second'",
            *[seconds] * 2,
        )

    def after(self, seconds: float) -> Any:
        return self.run("SELECT clock_timestamp() + ? * interval '1 second'", seconds)[0][0]


class SQLiteRows(Rows):
    """In an SQLite database."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def run(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            return connection.execute(sql, parameters).fetchall()

    def elapse(self, seconds: float) -> None:
        self.run(
            "UPDATE working_memory SET expires_at = expires_at - ?, sweep_after = sweep_after - ?",
            *[seconds] * 2,
        )

    def after(self, seconds: float) -> Any:
        return time.time() + seconds


Locks = RedisLocks | Rows
