"""Stored records that cannot be read are left out of lists, and affect no other record."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine import ConflictError, TraceFilter
from jazzmine.core.message_store import MessageStore
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config
from tests.behaviour.samples import NOW, conversation, ids, message, trace
from tests.behaviour.stored import everything, put

Raw = dict[str, Any]


def raw_message(name: str = "m1", **fields: Any) -> Raw:
    return {**message(name).model_dump(mode="json"), **fields}


def raw_trace(message_id: str, **fields: Any) -> Raw:
    return {**trace(message_id).model_dump(mode="json"), **fields}


def raw_conversation(name: str = "c1", **fields: Any) -> Raw:
    return {**conversation(name).model_dump(mode="json"), **fields}


@pytest.fixture(autouse=True)
def _without_json(config: Config) -> None:
    if config["storage"] == "json":
        pytest.skip("a file with a record that breaks a rule is refused")


@pytest.fixture
def unreadable(config: Config, store: MessageStore) -> None:
    """Store five messages with traces, of which the first, third and fourth are unreadable."""
    names = ["m1", "m2", "m3", "m4", "m5"]
    roles = dict.fromkeys(["m1", "m3", "m4"], "king")
    gone = [{"flow_id": "f", "flow_name": "f", "flow_type": "f", "event": "gone"}]
    put(
        config,
        [raw_conversation(name) for name in ("c1", "c2")],
        [raw_message(name, role=roles.get(name, "user")) for name in names],
        [raw_trace(name, flow_events=gone if name in roles else []) for name in names],
    )


@pytest.mark.usefixtures("unreadable")
async def test_records_that_cannot_be_read_hide_no_other(store: MessageStore) -> None:
    readable = [message("m2"), message("m5")]
    assert await store.get_messages_by_conversation_id("c1") == readable
    assert await store.get_messages_by_user_id("u1") == readable
    assert await store.get_messages_by_ids(["m5", "m4", "m2"]) == readable[::-1]
    assert [one async for one in store.iter_messages("c1", batch_size=1)] == readable
    traces = [trace("m2"), trace("m5")]
    assert await store.get_turn_traces_by_conversation_id("c1") == traces
    assert await store.find_turn_traces(TraceFilter(agent_id="a1")) == traces[::-1]
    assert await store.get_turn_traces_by_agent_id("a1") == traces[::-1]


@pytest.mark.smoke
@pytest.mark.usefixtures("unreadable")
@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_pages_are_full_in_spite_of_records_that_cannot_be_read(
    store: MessageStore, limit: int
) -> None:
    page = await store.get_messages_by_conversation_id("c1", limit=limit)
    assert ids(page) == ["m2", "m5"][:limit]
    rest = await store.get_messages_by_user_id("u1", limit=limit, after="m2")
    assert ids(rest) == ["m5"]
    found = await store.find_turn_traces(TraceFilter(), limit=limit)
    assert [one.message_id for one in found] == ["m5", "m2"][:limit]


@pytest.mark.usefixtures("unreadable")
async def test_a_record_that_cannot_be_read_raises_an_error_that_says_what_to_do(
    store: MessageStore,
) -> None:
    with pytest.raises(ValidationError, match=r"(?s)Message 'm3' .*delete it.*role"):
        await store.get_message_by_id("m3")
    with pytest.raises(ValidationError, match=r"(?s)TurnTrace 'trace-of-m3' .*flow_events"):
        await store.get_turn_trace_by_id("trace-of-m3")
    with pytest.raises(ValidationError, match="trace-of-m3"):
        await store.get_turn_trace_by_message_id("m3")


@pytest.mark.usefixtures("unreadable")
async def test_a_record_that_cannot_be_read_is_deleted_or_replaced(store: MessageStore) -> None:
    assert await store.delete_message("m1")
    await store.store_message(message("m3"))
    await store.store_turn_trace(trace("m3"))

    assert ids(await store.get_messages_by_conversation_id("c1")) == ["m2", "m3", "m5"]
    assert await store.get_turn_trace_by_message_id("m3") == trace("m3")
    assert await store.get_turn_trace_by_message_id("m1") is None
    assert await store.delete_conversation("c1")
    assert await store.get_message_by_id("m4") is None


@pytest.mark.usefixtures("unreadable")
async def test_a_record_that_is_left_out_is_logged_once(
    api: Api, config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with await api.MessageStore.initialize(config) as opened:
            for _ in range(3):
                await opened.get_messages_by_conversation_id("c1")

    lines = [record.getMessage() for record in caplog.records]
    assert [sum(f"'{name}'" in line for line in lines) for name in ("m1", "m2", "m3")] == [1, 0, 1]


async def test_conversations_that_cannot_be_read_hide_no_other(
    store: MessageStore, config: Config
) -> None:
    wrong = {"metadata": [1]}
    put(config, [raw_conversation("c1", **wrong), raw_conversation("c2"), raw_conversation("c3")])

    assert ids(await store.get_conversations_by_user_id("u1")) == ["c3", "c2"]
    assert ids(await store.get_conversations_by_agent_id("a1", limit=2)) == ["c3", "c2"]
    with pytest.raises(ValidationError, match=r"(?s)Conversation 'c1' .*metadata"):
        await store.get_conversation_by_id("c1")


# A conversation whose newest message, and the one before the first, cannot be read


@pytest.fixture
async def dirty(config: Config, store: MessageStore) -> MessageStore:
    broken = {"role": "nobody", "user_id": "ann-9f3c"}
    put(
        config,
        [raw_conversation()],
        [
            raw_message("m0", timestamp=NOW - 1, **broken),
            raw_message("m1"),
            raw_message("m2"),
            raw_message("m3", timestamp=NOW + 1, **broken),
        ],
    )
    return store


@pytest.mark.smoke
async def test_an_unreadable_message_is_not_popped(dirty: MessageStore) -> None:
    with pytest.raises(ValidationError, match="m3"):
        await dirty.pop_message("c1")

    assert await dirty.delete_message("m3") is True
    assert await dirty.pop_message("c1") == message("m2")


async def test_an_append_comes_after_an_unreadable_message(dirty: MessageStore) -> None:
    with pytest.raises(ConflictError) as caught:
        await dirty.append_messages("c1", [message("m4")], expected_last="m2")
    assert caught.value.newest_id == "m3"

    [appended] = await dirty.append_messages("c1", [message("m4")], expected_last="m3")

    assert appended.timestamp == NOW + 1
    assert ids(await dirty.get_messages_by_conversation_id("c1")) == ["m1", "m2", "m4"]


async def test_an_unreadable_message_of_a_user_is_erased(
    config: Config, dirty: MessageStore
) -> None:
    erasure = await dirty.erase_user("ann-9f3c")

    assert erasure.messages == 2
    assert b"ann-9f3c" not in everything(config)
    assert ids(await dirty.get_messages_by_conversation_id("c1")) == ["m1", "m2"]


@pytest.mark.smoke
@pytest.mark.parametrize("missing", ["timestamp", "id"])
async def test_a_stored_message_does_not_get_a_default_that_is_new_whenever_it_is_read(
    store: MessageStore, config: Config, missing: str
) -> None:
    if config["storage"] == "postgres":
        pytest.skip("no column can be missing")
    wrong = raw_message("m2")
    del wrong[missing]
    put(config, [raw_conversation()], [raw_message("m1"), wrong])

    assert await store.get_messages_by_conversation_id("c1") == [message("m1")]
    if missing == "timestamp":
        with pytest.raises(ValidationError, match="timestamp"):
            await store.get_message_by_id("m2")
