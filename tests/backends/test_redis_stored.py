"""The keys in Redis, their expiry, unreadable values, and data of the predecessor."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine.backends.redis.keys import ACQUIRE, RELEASE, SAVE, Keys
from jazzmine.records.working_memory import WorkingMemory
from tests.backends.redis_apis import APIS

LOCK, MEMORY, CORRUPT = "wm_lock:{c}", "wm:{c}", "wm_corrupt:{c}"
WEEK = 7 * 24 * 3600

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


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def open_store(api: Any, url: str) -> Iterator[Callable[..., Any]]:
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(api(url, **options))


@pytest.fixture
def store(open_store: Callable[..., Any]) -> Any:
    return open_store()


def test_the_state_is_json_in_the_field_data_of_a_hash(store: Any, client: Any) -> None:
    saved = store.get_or_create("c", "user", "agent")

    assert client.type(MEMORY) == "hash"
    assert WorkingMemory.from_dict(json.loads(client.hget(MEMORY, "data"))) == saved


def test_no_key_outlives_its_conversation_for_long(store: Any, client: Any) -> None:
    store.get_or_create("c", "user", "agent")
    store.end_turn("c", "Hello", "greet")
    store.delete("c")

    assert client.keys("wm:*") + client.keys("wm_lock:*") + client.keys("wm_line:*") == []
    assert all(0 < client.ttl(key) <= 60 for key in client.keys("*"))


def test_every_save_renews_the_expiry(open_store: Callable[..., Any], client: Any) -> None:
    store = open_store(ttl_seconds=100)
    store.get_or_create("c", "user", "agent")
    client.expire(MEMORY, 5)

    store.end_turn("c", "Hello", "greet")

    assert 95 < client.ttl(MEMORY) <= 100


def test_reading_does_not_renew_the_expiry(store: Any, client: Any) -> None:
    store.get_or_create("c", "user", "agent")
    client.expire(MEMORY, 5)

    store.get("c")

    assert client.ttl(MEMORY) <= 5


def test_reading_runs_no_script(store: Any, client: Any) -> None:
    store.get_or_create("c", "user", "agent")
    client.config_resetstat()

    store.get("c")

    calls = {name: each["calls"] for name, each in client.info("commandstats").items()}
    assert calls["cmdstat_hget"] == 1
    assert "cmdstat_evalsha" not in calls


def test_get_or_create_renews_the_expiry(open_store: Callable[..., Any], client: Any) -> None:
    store = open_store(ttl_seconds=100)
    store.get_or_create("c", "user", "agent")
    client.expire(MEMORY, 5)

    store.get_or_create("c", "user", "agent")

    assert 95 < client.ttl(MEMORY) <= 100


def test_the_user_and_the_format_stand_beside_the_state(store: Any, client: Any) -> None:
    store.get_or_create("c", "né {user}", "agent")

    assert (client.hget(MEMORY, "user"), client.hget(MEMORY, "format")) == ("né {user}", "1")
    client.hset(MEMORY, "data", "unreadable")
    assert store.get("c") is None
    assert client.hget(CORRUPT, "user") == "né {user}"


@pytest.mark.parametrize(
    "unreadable",
    ['{"conversation_id": "c", "user', "[]", "{}", '"text"', "null", "", '{"revision": NaN}'],
)
def test_a_state_that_cannot_be_read_is_moved_aside_for_a_week(
    store: Any, client: Any, caplog: pytest.LogCaptureFixture, unreadable: str
) -> None:
    other = store.get_or_create("other", "user", "agent")
    client.hset(MEMORY, "data", unreadable)

    with caplog.at_level(logging.ERROR):
        found = store.get("c")

    assert found is None
    assert client.hget(CORRUPT, "data") == unreadable
    assert WEEK - 60 < client.ttl(CORRUPT) <= WEEK
    assert "'c'" in caplog.text
    assert store.get_or_create("c", "user", "agent").revision == 1
    assert store.get("other") == other


def test_a_state_that_is_no_utf8_is_moved_aside(store: Any, client: Any) -> None:
    client.hset(MEMORY, "data", b"\xff\xfe{}")

    assert store.get_or_create("c", "user", "agent").revision == 1
    assert client.exists(CORRUPT)


def test_an_unreadable_value_is_moved_aside_under_the_lock_as_well(
    store: Any, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client.hset(MEMORY, "data", '{"secret": "swordfish"}')

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


def test_data_of_the_predecessor_can_be_read(store: Any, client: Any) -> None:
    stored = {
        "conversation_id": "c",
        "user_id": "user",
        "agent_id": "agent",
        "created_at": 1700000000.5,
        "last_updated": 1700000001.5,
        "status": "idle",
        "turn_number": 3,
        "active_flow": None,
        "flow_history": [],
        "pending_confirmation": None,
        "entity_workspace": {},
        "entity_max_age_turns": 5,
        "topic_history": [],
        "last_agent_response": "Hello",
        "last_agent_intent": "greet",
        "current_turn": None,
    }
    client.hset(MEMORY, "data", json.dumps(stored))

    found = store.get("c")

    assert (found.turn_number, found.last_agent_response, found.revision) == (3, "Hello", 0)
    assert store.end_turn("c", "Bye", "leave").revision == 1


@pytest.mark.parametrize("cid", STRANGE, ids=ascii)
def test_every_id_names_another_conversation(store: Any, cid: str) -> None:
    for other in STRANGE:
        store.get_or_create(other, f"user of {other}", "agent")

    assert store.get(cid).user_id == f"user of {cid}"
    assert store.end_turn(cid, "Hello", "greet").revision == 2
    assert store.active_count() == len(STRANGE)
    assert store.delete(cid) is True
    assert store.active_count() == len(STRANGE) - 1


def test_a_released_token_never_gets_the_lock_again(store: Any, client: Any) -> None:
    """A request for the lock that was held up on its way arrives after all is over."""
    store.get_or_create("c", "user", "agent")
    keys = Keys("c")
    names = [keys.memory, keys.lock, keys.result("late"), keys.queue]
    client.eval(RELEASE.text, 3, *names[1:], "late", 1000, "")

    taken = client.eval(ACQUIRE.text, 4, *names, "late", 1000, "", "late", "RPUSH")
    saved = client.eval(SAVE.text, 4, *names, "late", "{}", "user", 1, 1000, 1000)

    assert (taken, saved) == (0, 0)
    assert client.exists(LOCK) == 0
    assert store.get("c") is not None


def test_the_head_of_the_queue_gets_the_lock_and_one_without_a_listener_is_skipped(
    store: Any, client: Any
) -> None:
    store.get_or_create("c", "user", "agent")
    with client.pubsub() as listener:
        listener.subscribe("second")
        assert listener.get_message(timeout=1)["type"] == "subscribe"
        with store.locked("c"):
            client.rpush("wm_line:{c}", "one@gone", "two@second", "three@third")

        heard = listener.get_message(timeout=1)

    assert (heard["channel"], heard["data"]) == ("second", "two")
    assert client.get(LOCK) == "two"
    assert client.lrange("wm_line:{c}", 0, -1) == ["three@third"]


ids = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("{}%:7BD"), min_size=1)


def names(cid: str) -> set[str]:
    keys = Keys(cid)
    return {keys.memory, keys.lock, keys.queue, keys.corrupt, keys.result("token")}


@given(ids, ids)
def test_no_two_conversations_share_a_key(one: str, other: str) -> None:
    assert one == other or not names(one) & names(other)


@given(ids)
def test_all_keys_of_a_conversation_are_in_one_slot_that_depends_on_its_id(cid: str) -> None:
    tags = {key[key.index("{") + 1 : key.index("}")] for key in names(cid)}

    assert len(tags) == 1
    [tag] = tags
    assert tag
    assert all(key.count("{") == key.count("}") == 1 for key in names(cid))
