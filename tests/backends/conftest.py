"""Fixtures of the tests of Redis: an empty database, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import redis


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of an empty Redis database."""
    from tests.servers.redis import database

    with database() as opened:
        yield opened


@pytest.fixture
def client(url: str) -> Iterator[redis.Redis]:
    """A client of the database, to inspect and change its keys."""
    import redis

    with redis.Redis.from_url(url, decode_responses=True) as opened:
        yield opened
