"""A rolling upgrade: working memories in Redis that a newer version has written."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from jazzmine.errors import NewerFormatError
from jazzmine.records.memory_json import to_json
from tests.backends.redis_apis import APIS
from tests.behaviour.memory_samples import UPDATES, Update, busy

MEMORY, LOCK, CORRUPT = "wm:{c}", "wm_lock:{c}", "wm_corrupt:{c}"


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def store(api: Any, url: str) -> Iterator[Any]:
    with ExitStack() as stack:
        yield stack.enter_context(api(url))


def put(client: Any, **changes: Any) -> str:
    """Store what a newer version would."""
    memory = busy("c")
    memory.revision = 1
    blob = json.dumps({**json.loads(to_json(memory)), **changes})
    client.hset(MEMORY, "data", blob)
    return blob


def test_an_update_keeps_unknown_fields(store: Any, client: Any) -> None:
    put(client, mood={"of": ["the user"]})

    updated = store.end_turn("c", "Hello", "greet")

    kept = json.loads(client.hget(MEMORY, "data"))
    assert kept["mood"] == {"of": ["the user"]}
    assert kept["last_agent_response"] == updated.last_agent_response == "Hello"
    assert not client.exists(CORRUPT)


def test_a_read_and_saved_working_memory_keeps_it(store: Any, client: Any) -> None:
    put(client, mood="sad")
    memory = store.get("c")
    memory.collect_slot("size", 42)

    store.save(memory)

    assert json.loads(client.hget(MEMORY, "data"))["mood"] == "sad"


def test_a_block_keeps_it(store: Any, client: Any) -> None:
    put(client, mood="sad")

    with store.locked("c") as memory:
        memory.collect_slot("size", 42)
        memory.entity_max_age_turns = 9

    kept = json.loads(client.hget(MEMORY, "data"))
    assert (kept["mood"], kept["entity_max_age_turns"]) == ("sad", 9)


@pytest.mark.parametrize("update", UPDATES, ids=str)
def test_a_higher_format_is_refused_and_left_where_it_is(
    store: Any, client: Any, update: Update, caplog: pytest.LogCaptureFixture
) -> None:
    blob = put(client, format=2)

    with caplog.at_level(logging.ERROR), pytest.raises(NewerFormatError, match="format 2"):
        update.on(store, "c")

    assert client.hget(MEMORY, "data") == blob
    assert not client.exists(LOCK, CORRUPT)
    assert not caplog.records


CALLS: list[Callable[[Any], Any]] = [
    lambda store: store.get("c"),
    lambda store: store.get_or_create("c", "user", "agent"),
    lambda store: store.save(busy("c")),
    lambda store: store.delete("c"),
]


@pytest.mark.parametrize("call", CALLS, ids=["get", "get_or_create", "save", "delete"])
def test_no_other_call_touches_a_higher_format(
    store: Any, client: Any, call: Callable[[Any], Any]
) -> None:
    blob = put(client, format=2)

    with pytest.raises(NewerFormatError):
        call(store)

    assert client.hget(MEMORY, "data") == blob
    assert not client.exists(LOCK, CORRUPT)
