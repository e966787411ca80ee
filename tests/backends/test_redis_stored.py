"""The keys in Redis, their expiry and erasure, and values of other programs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine.backends.redis.keys import conversation_of, keys_of
from jazzmine.errors import StoreUnavailableError
from jazzmine.records.memory_json import to_json
from tests.backends.memory_tables import open_sync
from tests.behaviour.memory_samples import busy

LOCK, MEMORY = "wm_lock:{c}", "wm:{c}"


@pytest.fixture
def open_store(url: str) -> Iterator[Callable[..., Any]]:
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(
            open_sync({"storage": "redis", "url": url}, **options)
        )


@pytest.fixture
def store(open_store: Callable[..., Any]) -> Any:
    return open_store()


def test_the_marks_of_the_last_saves_alone_are_kept(store: Any, client: Any) -> None:
    store.get_or_create("c", "user", "agent")
    for _ in range(20):
        saved = store.end_turn("c", "Hello", "greet")

    marks = client.hget(MEMORY, "marks")
    assert len(marks) == 16 * 16
    assert marks.startswith(saved.version_token)


def test_the_lock_is_a_key_with_its_token_and_holder_and_an_expiry(
    open_store: Callable[..., Any], client: Any
) -> None:
    store = open_store(lease_seconds=7)
    store.get_or_create("c", "user", "agent")

    with store.locked("c"):
        token, since, holder = client.get(LOCK).split(" ", 2)
        expiry = client.pttl(LOCK)

    assert len(token) == 16
    assert abs(int(since) / 1000 - time.time()) < 60
    assert str(os.getpid()) in holder
    assert 6000 < expiry <= 7000
    assert not client.exists(LOCK)


@pytest.mark.parametrize(
    ("key", "call"),
    [
        *((MEMORY, call) for call in ("get", "get_or_create", "delete", "end_turn")),
        (LOCK, "end_turn"),
    ],
)
def test_a_key_of_another_program_is_named_and_left_alone(
    store: Any, client: Any, key: str, call: str
) -> None:
    if key == LOCK:
        store.get_or_create("c", "user", "agent")
    client.lpush(key, "theirs")

    arguments = {"get_or_create": ("user", "agent"), "end_turn": ("Hello", "greet")}.get(call, ())
    with pytest.raises(StoreUnavailableError, match=re.escape(key)):
        getattr(store, call)("c", *arguments)

    assert client.lrange(key, 0, -1) == ["theirs"]


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


ids = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("{}%:7BD"), min_size=1)


@given(ids)
def test_all_keys_of_a_conversation_are_in_one_slot_that_depends_on_its_id(cid: str) -> None:
    tags = {key[key.index(b"{") + 1 : key.index(b"}")] for key in keys_of(cid)}

    assert len(tags) == 1
    [tag] = tags
    assert tag
    assert all(key.count(b"{") == key.count(b"}") == 1 for key in keys_of(cid))


@given(ids)
def test_the_id_of_a_conversation_is_read_from_its_key(cid: str) -> None:
    assert conversation_of(keys_of(cid)[0]) == cid
