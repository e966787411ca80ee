"""The back ends that the behaviour suites run on: a new one joins with one entry in a list."""

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
        name: what its tests are called by.
        open_config: given a folder that is the test's own, a context manager whose value is
            the configuration of a store without any data. A back end with a server keeps a
            schema or a database for it there, and empties that at the end.
        shared: whether every store with the same configuration sees the same data.
        share: how many of the profile's random sequences of calls are tried; a server takes
            longer for each than a file.
        embedded: whether it needs no server.
        remembers: whether a store that once found a conversation takes it to be there until
            it deletes it itself.
        missing: why it cannot run here, and what would bring it in; its tests are then skipped.
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
