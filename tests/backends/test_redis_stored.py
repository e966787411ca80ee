"""The keys in Redis, their expiry, unreadable values, and data of the predecessor."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine.backends.redis.keys import Keys, conversation_of
from jazzmine.errors import LockTimeoutError
from jazzmine.records.working_memory import WorkingMemory
from tests.backends.redis_apis import open_sync

LOCK, MEMORY, CORRUPT, DELETED = "wm_lock:{c}", "wm:{c}", "wm_corrupt:{c}", "wm_deleted:{c}"

STRANGE = [
    "a b",
    "a:b",
    "wm:{c}",
    "{c}",
    "}{",
    "{}",
    "c}",
    "%7Bc%7D",
    "%",
    "*",
    "[a-z]?",
    "line\nbreak\r\n",
    "\0",
    "x" * 1000,
    "né\N{SNOWMAN}\N{PILE OF POO}",
    "\u202eright to left",
]


@pytest.fixture
def open_store(url: str) -> Iterator[Callable[..., Any]]:
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(open_sync(url, **options))


@pytest.fixture
def store(open_store: Callable[..., Any]) -> Any:
    return open_store()


def put(client: Any, data: str | bytes, name: str = MEMORY) -> None:
    """Store some JSON as a version without marks did."""
    client.hdel(name, "mark")
    client.hset(name, "data", data)


def test_the_state_is_json_in_the_field_data_of_a_hash(store: Any, client: Any) -> None:
    saved = store.get_or_create("c", "user", "agent")

    assert client.type(MEMORY) == "hash"
    assert WorkingMemory.from_dict(json.loads(client.hget(MEMORY, "data"))) == saved


def test_no_key_outlives_its_conversation_for_long(store: Any, client: Any) -> None:
    store.get_or_create("c", "user", "agent")
    with store.locked("c") as memory:
        memory.end_turn("Hello", "greet")
    mark = client.hget(MEMORY, "mark")
    store.delete("c")

    last = "wm_last:{c}:" + mark.partition(".")[0]
    assert sorted(client.keys("*")) == [DELETED, last]
    assert all(0 < client.ttl(key) <= 60 for key in client.keys("*"))


def test_a_made_anew_conversation_has_no_tombstone(store: Any, client: Any) -> None:
    store.get_or_create("c", "user", "agent")
    store.delete("c")

    assert store.get_or_create("c", "user", "agent").revision == 1
    assert not client.exists(DELETED)


def test_the_lock_is_a_key_with_its_mark_and_holder_and_an_expiry(
    open_store: Callable[..., Any], client: Any
) -> None:
    store = open_store(lease_seconds=7)
    store.get_or_create("c", "user", "agent")

    with store.locked("c"):
        mark, since, holder = client.get(LOCK).split(" ", 2)
        expiry = client.pttl(LOCK)

    assert mark.partition(".")[0] == client.hget(MEMORY, "mark").partition(".")[0]
    assert abs(int(since) / 1000 - time.time()) < 60
    assert str(os.getpid()) in holder
    assert 6000 < expiry <= 7000
    assert not client.exists(LOCK)


@pytest.mark.parametrize("plant", ["set", "lpush"])
def test_a_lock_of_another_program_counts_as_taken(
    open_store: Callable[..., Any], client: Any, plant: str
) -> None:
    open_store().get_or_create("c", "user", "agent")
    store = open_store(lock_timeout=0.2)
    getattr(client, plant)(LOCK, "what is this?")
    client.config_resetstat()

    with pytest.raises(
        LockTimeoutError, match="what is this" if plant == "set" else "another type"
    ):
        store.end_turn("c", "Hello", "greet")
    assert client.exists(LOCK)
    assert client.info("commandstats")["cmdstat_evalsha"]["calls"] < 100  # it has no expiry


def test_reading_runs_no_script(store: Any, client: Any) -> None:
    store.get_or_create("c", "user", "agent")
    client.config_resetstat()

    store.get("c")

    calls = {name: each["calls"] for name, each in client.info("commandstats").items()}
    assert calls["cmdstat_hmget"] == 1
    assert "cmdstat_evalsha" not in calls


def test_an_unreadable_value_is_moved_aside_by_an_update_as_well(
    store: Any, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    put(client, '{"secret": "swordfish"}')

    with pytest.raises(LookupError, match="'c'"):
        store.end_turn("c", "Hello", "greet")

    assert client.hget(CORRUPT, "data") == '{"secret": "swordfish"}'
    assert client.exists(LOCK) == 0
    assert "cannot be read" in caplog.text
    assert "swordfish" not in caplog.text


@pytest.mark.parametrize("read", ["get", "delete", "end_turn"])
@pytest.mark.parametrize("kind", ["string", "list", "hash"])
def test_a_key_of_another_kind_is_moved_aside(
    store: Any, client: Any, kind: str, read: str
) -> None:
    plant = {
        "string": lambda: client.set(MEMORY, "{}"),
        "list": lambda: client.lpush(MEMORY, "{}"),
        "hash": lambda: client.hset(MEMORY, "another field", "{}"),
    }
    plant[kind]()

    if read == "delete":
        assert store.delete("c") is False
    elif read == "end_turn":
        with pytest.raises(LookupError):
            store.end_turn("c", "Hello", "greet")
    else:
        assert store.get("c") is None

    assert store.get_or_create("c", "user", "agent").revision == 1
    assert client.type(CORRUPT) == kind


def test_counting_sees_every_conversation_and_nothing_else(store: Any, client: Any) -> None:
    for number in range(2500):
        client.hset(f"wm:{{{number}}}", "data", "{}")
    client.set("wm_lock:{1}", "token")
    client.set("wm:unlike ours", "1")
    client.set("something else", "2")

    assert store.active_count() == 2500


def test_counting_never_asks_for_all_keys_at_once(store: Any, client: Any) -> None:
    client.config_resetstat()

    store.active_count()

    commands = client.info("commandstats")
    assert "cmdstat_scan" in commands
    assert "cmdstat_keys" not in commands


@pytest.mark.parametrize("cid", STRANGE, ids=ascii)
def test_every_id_names_another_conversation(store: Any, cid: str) -> None:
    for other in STRANGE:
        store.get_or_create(other, f"user of {other}", "agent")

    assert store.get(cid).user_id == f"user of {cid}"
    assert store.end_turn(cid, "Hello", "greet").revision == 2
    assert store.active_count() == len(STRANGE)
    assert store.delete(cid) is True
    assert store.active_count() == len(STRANGE) - 1


ids = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("{}%:7BD"), min_size=1)


def names(cid: str) -> set[bytes]:
    keys = Keys(cid)
    return {*keys.of_store("store"), keys.corrupt}


@given(ids, ids)
def test_no_two_conversations_share_a_key(one: str, other: str) -> None:
    assert one == other or not names(one) & names(other)
    assert Keys(one).predecessor not in names(other)


@given(ids)
def test_all_keys_of_a_conversation_are_in_one_slot_that_depends_on_its_id(cid: str) -> None:
    tags = {key[key.index(b"{") + 1 : key.index(b"}")] for key in names(cid)}

    assert len(tags) == 1
    [tag] = tags
    assert tag
    assert all(key.count(b"{") == key.count(b"}") == 1 for key in names(cid))


@given(ids)
def test_the_id_of_a_conversation_is_read_from_its_keys(cid: str) -> None:
    keys = Keys(cid)

    assert {conversation_of(keys.memory), conversation_of(keys.corrupt)} == {cid}
    assert not keys.predecessor or conversation_of(keys.predecessor) == cid
