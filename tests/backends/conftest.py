"""Fixtures of the tests of single back ends: empty places, and proxies before their servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from tests.backends.memory_tables import BACKENDS, Config, Locks, open_sync, opened_backend
from tests.servers import mongodb, postgres
from tests.servers.proxy import Proxy
from tests.servers.redis import database


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty schema of PostgreSQL with the tables; none yet where a module has NEW_SCHEMA."""
    with (
        postgres.new_schema()
        if hasattr(request.module, "NEW_SCHEMA")
        else postgres.empty_schema() as name
    ):
        yield name


@pytest.fixture
def admin() -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection to PostgreSQL, to inspect and change what is stored."""
    with postgres.connect(postgres.dsn()) as connection:
        yield connection


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy before PostgreSQL."""
    with Proxy(postgres.port_of(postgres.dsn())) as between:
        yield between


@pytest.fixture
def mongodb_config() -> Iterator[dict[str, Any]]:
    """The configuration of an empty database of MongoDB."""
    with mongodb.database() as config:
        yield config


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of an empty Redis database."""
    with database() as opened:
        yield opened


@pytest.fixture
def client(url: str) -> Iterator[redis.Redis]:
    """A client of the database, to inspect and change its keys."""
    with redis.Redis.from_url(url, decode_responses=True) as opened:
        yield opened


# Working memory


@pytest.fixture(params=BACKENDS)
def memory_backend(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Config, Locks]]:
    """The configuration of an empty store, and its rows, or Redis' locks."""
    with opened_backend(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def memory_config(memory_backend: tuple[Config, Locks]) -> Config:
    return memory_backend[0]


@pytest.fixture
def locks(memory_backend: tuple[Config, Locks]) -> Locks:
    return memory_backend[1]


@pytest.fixture
def open_memory(memory_config: Config) -> Iterator[Callable[..., Any]]:
    """Opens sync stores on the same data, with options."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(open_sync(memory_config, **options))


@pytest.fixture
def memory_store(open_memory: Callable[..., Any]) -> Any:
    return open_memory()
