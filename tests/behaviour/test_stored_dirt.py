"""Invalid stored records are read with replacements if possible, and affect no other record.

`tests.behaviour.dirt` has the replacement for each value.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from jazzmine import TraceFilter
from jazzmine.core.message_store import Message, MessageStore, TurnTrace
from tests.behaviour.apis import Api
from tests.behaviour.backends import Backend, Config
from tests.behaviour.dirt import FIELDS, free_form
from tests.behaviour.samples import conversation, full_message, full_trace, ids, message, trace
from tests.behaviour.stored import put

Raw = dict[str, Any]


def raw_message(name: str = "m1", **fields: Any) -> Raw:
    return {**message(name).model_dump(mode="json"), **fields}


def raw_trace(message_id: str, **fields: Any) -> Raw:
    return {**trace(message_id).model_dump(mode="json"), **fields}


def raw_conversation(name: str = "c1", **fields: Any) -> Raw:
    return {**conversation(name).model_dump(mode="json"), **fields}


def replaced(record: Raw, path: str, value: Any) -> None:
    *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
    place: Any = record
    for step in steps:
        place = place[step]
    place[last] = value


@pytest.fixture(autouse=True)
def _without_json(config: Config) -> None:
    if config["storage"] == "json":
        pytest.skip("a file with a record that breaks a rule is refused")


FREE_FORM = [
    "tool_traces.0.final_data",
    "slot_events.0.value",
    "emission_records.0.metadata.x",
    "tool_traces.0.intermediates.0.x",
    "tool_traces.0.api_calls.0.x",
]


@pytest.mark.smoke
@pytest.mark.parametrize("examples", [24])
async def test_dirty_values_are_replaced_wherever_they_are(
    backend: Backend, config: Config, store: MessageStore, examples: int
) -> None:
    storage = str(config["storage"])
    count = examples if backend.embedded else examples // 4
    cases: list[tuple[Raw, Raw]] = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.lists(st.tuples(st.sampled_from(FREE_FORM), free_form(storage)), max_size=4),
        st.lists(st.sampled_from(FIELDS[storage]), max_size=3),
        free_form(storage),
    )
    def draw(free: list[Any], typed: list[Any], metadata: Any) -> None:
        raw = full_trace("m1", id="t1").model_dump(mode="json")
        read = full_trace("m1", id="t1").model_dump(mode="json")
        for path, pair in [*free, *typed]:
            replaced(raw, path, pair[0])
            replaced(read, path, pair[1])
        cases.append((raw, read))
        one, other = full_message().model_dump(mode="json"), full_message().model_dump(mode="json")
        one["metadata"], other["metadata"] = {"x": metadata[0]}, {"x": metadata[1]}
        cases.append((one, other))

    draw()
    for (traced, trace_read), (said, message_read) in zip(cases[::2], cases[1::2], strict=True):
        put(config, [raw_conversation()], [said, raw_message("m2")], [traced])
        await check(store, message_read, trace_read)


async def check(store: MessageStore, message_read: Raw, trace_read: Raw) -> None:
    """Read one message and its trace by every method that returns them."""
    first = await store.get_message_by_id("m1")
    assert first is not None
    assert plain(first) == json.dumps(message_read, sort_keys=True)
    both = [first, message("m2")]
    assert await store.get_messages_by_conversation_id("c1") == both
    assert await store.get_messages_by_conversation_id("c1", limit=1) == [first]
    assert await store.get_messages_by_user_id("u1") == both
    assert await store.get_messages_by_ids(["m2", "m1"]) == both[::-1]
    assert [one async for one in store.iter_messages("c1", batch_size=1)] == both
    assert await store.get_immediate_context("c1", 2) == [message("m2")]

    found = await store.get_turn_trace_by_id("t1")
    assert found is not None
    assert plain(found) == json.dumps(trace_read, sort_keys=True)
    assert await store.get_turn_trace_by_message_id("m1") == found
    assert await store.get_turn_traces_by_conversation_id("c1") == [found]
    assert await store.find_turn_traces(TraceFilter(conversation_id="c1")) == [found]
    await store.store_turn(messages=[first], trace=found)
    assert await store.get_turn_trace_by_id("t1") == found


def plain(record: Message | TurnTrace) -> str:
    return json.dumps(record.model_dump(mode="json"), sort_keys=True)


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
@pytest.mark.parametrize("n", [1, 2, 3, 9])
async def test_a_context_has_as_many_messages_as_can_be_read(store: MessageStore, n: int) -> None:
    assert ids(await store.get_immediate_context("c1", n)) == ["m2", "m5"][-n:]


@pytest.mark.usefixtures("unreadable")
async def test_a_record_that_cannot_be_read_raises_an_error_that_says_what_to_do(
    store: MessageStore,
) -> None:
    with pytest.raises(ValidationError, match=r"(?s)Message 'm3' .*delete_message.*role"):
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
