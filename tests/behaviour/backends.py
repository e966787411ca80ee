"""The back ends of the behaviour suites; a new one needs one entry in a list."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from tests.servers import mongodb, pgbouncer, postgres, redis_configs

Config = dict[str, object]


@dataclass(frozen=True)
class Backend:
    """A back end under test.

    Args:
        name: its name in test ids.
        open_config: returns a context manager whose value is the configuration of an empty
            store. A server has a schema or a database for it, SQLite a file, which is emptied at
            the end, and used again.
        shared: whether every store with the same configuration sees the same data.
        share: the part of the random sequences that are tried; a server takes longer for each
            than a file.
        embedded: whether it needs no server.
        fresh: whether each configuration is of a new place, in which no store stays open.
        variant: whether it has the mechanism of another one here: the same statements on another
            version or connection, or another place for the same database. It runs the tests that
            are marked `smoke` (see `tests/combinations.py`).
        missing: why it cannot be tested here, and what it needs; its tests are then skipped.
    """

    name: str
    open_config: Callable[[], AbstractContextManager[Config]]
    shared: bool = True
    share: float = 1.0
    embedded: bool = False
    fresh: bool = False
    variant: bool = False
    missing: str = ""

    def __str__(self) -> str:
        return self.name


@contextmanager
def _json() -> Iterator[Config]:
    # Pytest's own folder would take longer to make and to remove than most tests.
    with TemporaryDirectory() as folder:
        yield {"storage": "json", "path": f"{folder}/messages.json", "fsync": False}


_emptied: list[Path] = []


@contextmanager
def _sqlite() -> Iterator[Config]:
    # A file of the test's own would take longer to make and to close than most tests.
    path = _emptied.pop() if _emptied else Path(mkdtemp()) / "agent.db"
    yield {"storage": "sqlite", "path": str(path), "synchronous": "normal"}
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA synchronous = OFF")
        found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        if ("search_state",) in found:
            return  # what the next test gets has no index
        for name in {name for (name,) in found} - {
            "jazzmine_migrations",
            "message_numbers",
            "item_revisions",
        }:
            connection.execute(f"DELETE FROM {name}")
    _emptied.append(path)


@contextmanager
def _memory() -> Iterator[Config]:
    yield {"storage": "memory"}


@contextmanager
def _mongodb() -> Iterator[Config]:
    with mongodb.emptied_database() as config:
        yield config


def _postgres(version: str) -> Backend:
    @contextmanager
    def open_config() -> Iterator[Config]:
        with postgres.empty_schema(version) as schema:
            yield {"storage": "postgres", "dsn": postgres.dsn(version), "schema": schema}

    is_older = version != postgres.VERSIONS[0]
    return Backend(f"postgres-{version}", open_config, share=0.3, variant=is_older)


@contextmanager
def _pgbouncer() -> Iterator[Config]:
    with postgres.empty_schema() as schema:
        dsn = pgbouncer.running()
        yield {"storage": "postgres", "dsn": dsn, "schema": schema, "prepare": False}


MESSAGE_BACKENDS = [
    Backend("sqlite", _sqlite, embedded=True),
    Backend("json", _json, embedded=True, share=0.3, fresh=True, variant=True),
    Backend("memory", _memory, shared=False, embedded=True, share=0.3, fresh=True, variant=True),
    *map(_postgres, postgres.VERSIONS),
    Backend("mongodb", _mongodb, share=0.3),
    Backend("pgbouncer", _pgbouncer, share=0.3, variant=True, missing=pgbouncer.MISSING),
]
MEMORY_BACKENDS = [
    Backend("sqlite", _sqlite, embedded=True, share=0.5),
    Backend("memory", _memory, shared=False, embedded=True, share=0.5, fresh=True),
    Backend("redis", redis_configs.alone, share=0.5),
    Backend("redis-sentinel", redis_configs.behind_sentinel, share=0.1, variant=True),
    Backend("redis-cluster", redis_configs.on_cluster, share=0.1, variant=True),
    *map(_postgres, postgres.VERSIONS),
    Backend("pgbouncer", _pgbouncer, share=0.3, variant=True, missing=pgbouncer.MISSING),
]
ITEM_BACKENDS = [
    Backend("sqlite", _sqlite, embedded=True),
    Backend("memory", _memory, shared=False, embedded=True, share=0.3, fresh=True, variant=True),
    *map(_postgres, postgres.VERSIONS),
    Backend("mongodb", _mongodb, share=0.3),
    Backend("pgbouncer", _pgbouncer, share=0.3, variant=True, missing=pgbouncer.MISSING),
]
