"""What Redis holds of a user is erased, whether this version can read it or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis

from jazzmine.records.memory_json import to_json
from tests.backends.redis_apis import open_sync
from tests.behaviour.memory_samples import busy
from tests.servers.redis import database

MEMORY = "wm:{c}"


@pytest.fixture
def url() -> Iterator[str]:
    with database() as opened:
        yield opened


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with redis.Redis.from_url(url, decode_responses=True) as opened:
        yield opened


@pytest.fixture
def store(url: str) -> Iterator[Any]:
    with ExitStack() as stack:
        yield stack.enter_context(open_sync(url))


def test_keys_of_another_kind_are_left_alone(store: Any, client: Any) -> None:
    client.set("wm:{x}", "ann")
    client.rpush("wm:{y}", "ann")
    client.set(b"wm:{\xff}", "ann")
    client.hset(b"wm:{\xfe}", "user", "ann")
    store.get_or_create("c", "ann", "agent")

    assert store.erase_user("ann") == 1
    assert client.exists("wm:{x}", "wm:{y}", b"wm:{\xff}", b"wm:{\xfe}") == 4


def test_more_working_memories_than_are_looked_at_together_are_erased(
    store: Any, client: Any
) -> None:
    pipeline = client.pipeline()
    blob = to_json(busy("c")).decode()
    for number in range(1200):
        user = "ann" if number % 400 == 0 else "bob"
        pipeline.hset(f"wm:{{n{number}}}", mapping={"data": blob, "user": user, "format": "1"})
    pipeline.execute()

    assert store.erase_user("ann") == 3
    assert len(client.keys("wm:*")) == 1197
