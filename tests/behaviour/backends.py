"""The back ends of the behaviour suites; a new one needs one entry in a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.behaviour.toy_backend import toy_storage
from tests.servers import mongodb, pgbouncer, postgres, redis_configs

__all__ = ["MEMORY_BACKENDS", "MESSAGE_BACKENDS", "Backend", "Config"]

Config = dict[str, object]


@dataclass(frozen=True)
class Backend:
    """A back end under test.

    Args:
        name: its name in test ids.
        open_config: returns, for a folder of the test, a context manager whose value is the
            configuration of an empty store. A back end with a server has a schema or a
            database for it, which is emptied at the end.
        shared: whether every store with the same configuration sees the same data.
        share: the part of the profile's random sequences that are tried; a server takes longer
            for each than a file.
        embedded: whether it needs no server.
        remembers: whether a store assumes that a conversation which it has found exists, until
            it deletes the conversation itself.
        missing: why it cannot be tested here, and what it needs; its tests are then skipped.
    """

    name: str
    open_config: Callable[[Path], AbstractContextManager[Config]]
    shared: bool = True
    share: float = 1.0
    embedded: bool = False
    remembers: bool = False
    missing: str = ""

    def __str__(self) -> str:
        return self.name


@contextmanager
def _json(folder: Path) -> Iterator[Config]:
    yield {"storage": "json", "path": str(folder / "messages.json"), "fsync": False}


@contextmanager
def _memory(folder: Path) -> Iterator[Config]:
    yield {"storage": "memory"}


@contextmanager
def _mongodb(folder: Path) -> Iterator[Config]:
    with mongodb.emptied_database() as config:
        yield config


def _postgres(version: str) -> Backend:
    @contextmanager
    def open_config(folder: Path) -> Iterator[Config]:
        with postgres.empty_schema(version) as schema:
            yield {"storage": "postgres", "dsn": postgres.dsn(version), "schema": schema}

    return Backend(f"postgres-{version}", open_config, share=0.2)


@contextmanager
def _pgbouncer(folder: Path) -> Iterator[Config]:
    with postgres.empty_schema() as schema:
        dsn = pgbouncer.running()
        yield {"storage": "postgres", "dsn": dsn, "schema": schema, "prepare": False}


MESSAGE_BACKENDS = [
    Backend("json", _json, embedded=True),
    Backend("toy", toy_storage, embedded=True),
    *map(_postgres, postgres.VERSIONS),
    Backend("mongodb", _mongodb, share=0.2, remembers=True),
    Backend("pgbouncer", _pgbouncer, share=0.1, missing=pgbouncer.MISSING),
]
MEMORY_BACKENDS = [
    Backend("memory", _memory, shared=False, embedded=True),
    Backend("redis", redis_configs.alone, share=0.5),
    Backend("redis-sentinel", redis_configs.behind_sentinel, share=0.2),
    Backend("redis-cluster", redis_configs.on_cluster, share=0.2),
]
