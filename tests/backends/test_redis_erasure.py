"""What Redis holds of a user is erased, whether this version can read it or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis

from jazzmine.records.memory_json import to_json
from tests.backends.redis_apis import open_sync
from tests.behaviour.memory_samples import busy
from tests.servers.redis import database

MEMORY, CORRUPT = "wm:{c}", "wm_corrupt:{c}"


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


def put(client: Any, data: str) -> None:
    """Store something as a version without marks did."""
    client.hdel(MEMORY, "mark")
    client.hset(MEMORY, "data", data)


def everything(client: Any) -> str:
    """All keys and values of the server, as text."""
    found = []
    for key in client.keys("*"):
        kind = client.type(key)
        read = {"hash": client.hgetall, "string": client.get}.get(kind)
        found.append((key, read(key) if read else client.lrange(key, 0, -1)))
    return repr(found)


def test_nothing_of_the_user_is_left_in_any_key(store: Any, client: Any) -> None:
    for name in ("c", "d"):
        memory = busy(name)
        memory.user_id = "ann-9f3c"
        memory.last_agent_response = "the secret of Ann"
        store.save(memory)
    store.get_or_create("e", "bob", "agent")
    assert "ann-9f3c" in everything(client)

    assert store.erase_user("ann-9f3c") == 2

    assert "ann-9f3c" not in everything(client)
    assert "the secret" not in everything(client)
    assert client.hget("wm:{e}", "user") == "bob"


def test_one_that_was_moved_aside_is_erased(store: Any, client: Any) -> None:
    store.get_or_create("c", "ann", "agent")
    put(client, "the secret of Ann, unreadable")
    assert store.get("c") is None
    assert client.exists(CORRUPT)
    store.get_or_create("c", "ann", "agent")

    assert store.erase_user("ann") == 2

    assert "ecret" not in everything(client)
    assert not client.exists(MEMORY, CORRUPT)


def test_another_user_s_that_was_moved_aside_stays(store: Any, client: Any) -> None:
    store.get_or_create("c", "bob", "agent")
    put(client, "unreadable")
    assert store.get("c") is None
    store.get_or_create("c", "ann", "agent")

    assert store.erase_user("ann") == 1

    assert client.hget(CORRUPT, "user") == "bob"
    assert store.erase_user("bob") == 1
    assert not client.exists(MEMORY, CORRUPT)


def test_one_that_cannot_be_read_yet_is_erased_where_it_is(store: Any, client: Any) -> None:
    store.get_or_create("c", "ann", "agent")
    put(client, "unreadable")

    assert store.erase_user("ann") == 1
    assert not client.exists(MEMORY, CORRUPT)


def test_one_of_a_newer_version_is_erased(store: Any, client: Any) -> None:
    memory = json.loads(to_json(busy("c")))
    blob = json.dumps({**memory, "user_id": "ann", "format": 99})
    client.hset(MEMORY, mapping={"data": blob, "user": "ann", "format": "99"})

    assert store.erase_user("ann") == 1
    assert not client.exists(MEMORY)


def test_one_whose_user_stands_in_its_json_alone_is_erased(store: Any, client: Any) -> None:
    for key in (MEMORY, CORRUPT):
        memory = json.loads(to_json(busy("c")))
        client.hset(key, "data", json.dumps({**memory, "user_id": "né {ann}"}))

    assert store.erase_user("né {ann}") == 2
    assert not client.exists(MEMORY, CORRUPT)


@pytest.mark.parametrize("data", ["[]", "{", "null", '{"user_id": null}', '{"user_id": ["ann"]}'])
def test_one_that_says_nobody_s_name_stays(store: Any, client: Any, data: str) -> None:
    client.hset(MEMORY, "data", data)

    assert store.erase_user("ann") == 0
    assert client.hget(MEMORY, "data") == data


def test_keys_of_another_kind_are_left_alone(store: Any, client: Any) -> None:
    client.set("wm:{x}", "ann")
    client.rpush("wm_corrupt:{y}", "ann")
    client.set(b"wm:{\xff}", "ann")
    client.hset(b"wm:{\xfe}", "user", "ann")
    store.get_or_create("c", "ann", "agent")

    assert store.erase_user("ann") == 1
    assert client.exists("wm:{x}", "wm_corrupt:{y}", b"wm:{\xff}", b"wm:{\xfe}") == 4


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
