"""A message has at most one trace; traces are found by id, message, conversation and agent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from jazzmine import EmissionRecord
from jazzmine.core.message_store import MessageStore, TurnTrace
from tests.behaviour.samples import (
    NOW,
    conversation,
    full_trace,
    ids,
    message,
    messages,
    trace,
)
from tests.behaviour.writes import store_traces


@pytest.mark.smoke
async def test_a_stored_trace_is_read_back_with_every_field(chat: MessageStore) -> None:
    await chat.store_message(message())
    stored = full_trace()

    await chat.store_turn_trace(stored)

    assert await chat.get_turn_trace_by_id("trace-of-m1") == stored
    assert await chat.get_turn_trace_by_message_id("m1") == stored
    assert await chat.get_turn_traces_by_conversation_id("c1") == [stored]
    assert await chat.get_turn_traces_by_agent_id("a1") == [stored]


async def test_a_trace_is_read_back_with_its_defaults(chat: MessageStore) -> None:
    await store_traces(chat, trace())

    found = await chat.get_turn_trace_by_id("trace-of-m1")

    assert found == trace()
    assert found is not None
    assert found.llm_calls == []
    assert found.total_tokens == 0


async def test_the_ids_that_records_get_by_themselves_are_kept(chat: MessageStore) -> None:
    given = TurnTrace.model_validate(
        trace(emission_records=[EmissionRecord(type="llm")]).model_dump(exclude={"id"})
    )

    await store_traces(chat, given)

    assert await chat.get_turn_trace_by_message_id("m1") == given


async def test_a_moment_is_read_back_to_the_microsecond_in_utc(chat: MessageStore) -> None:
    in_lisbon = datetime(2024, 7, 1, 12, 0, 0, 1, tzinfo=timezone(timedelta(hours=1)))
    naive = datetime(2024, 7, 1, 11, 0, 0, 999999)
    await store_traces(
        chat,
        trace(
            emission_records=[
                EmissionRecord(id="e1", type="llm", timestamp=in_lisbon),
                EmissionRecord(id="e2", type="api", timestamp=naive),
            ]
        ),
    )

    found = await chat.get_turn_trace_by_message_id("m1")

    assert found is not None
    moments = [record.timestamp for record in found.emission_records]
    assert moments == [in_lisbon, naive.replace(tzinfo=UTC)]
    assert [moment.utcoffset() for moment in moments] == [timedelta(0), timedelta(0)]


async def test_a_trace_that_is_not_stored_is_none(chat: MessageStore) -> None:
    await chat.store_message(message())

    assert await chat.get_turn_trace_by_id("trace-of-m1") is None
    assert await chat.get_turn_trace_by_message_id("m1") is None
    assert await chat.get_turn_trace_by_message_id("lost") is None


async def test_storing_a_trace_again_replaces_all_of_it(chat: MessageStore) -> None:
    await store_traces(chat, full_trace())
    newer = trace(detected_intent="other", agent_id="a2")

    await chat.store_turn_trace(newer)

    assert await chat.get_turn_trace_by_id("trace-of-m1") == newer
    assert await chat.get_turn_trace_by_message_id("m1") == newer
    assert await chat.get_turn_traces_by_conversation_id("c1") == [newer]
    assert await chat.get_turn_traces_by_agent_id("a1") == []
    assert await chat.get_turn_traces_by_agent_id("a2") == [newer]


@pytest.mark.smoke
async def test_another_trace_of_a_message_replaces_the_one_before(chat: MessageStore) -> None:
    await store_traces(chat, trace(id="t1"))

    await chat.store_turn_trace(trace(id="t2"))

    assert await chat.get_turn_trace_by_id("t1") is None
    assert await chat.get_turn_trace_by_message_id("m1") == trace(id="t2")
    assert ids(await chat.get_turn_traces_by_conversation_id("c1")) == ["t2"]
    assert ids(await chat.get_turn_traces_by_agent_id("a1")) == ["t2"]


async def test_the_id_of_a_replaced_trace_is_free_for_another_message(chat: MessageStore) -> None:
    await store_traces(chat, trace(id="t1"))
    await chat.store_turn_trace(trace(id="t2"))

    await store_traces(chat, trace("m2", id="t1"))

    assert ids(await chat.get_turn_traces_by_conversation_id("c1")) == ["t2", "t1"]
    assert await chat.get_turn_trace_by_message_id("m2") == trace("m2", id="t1")


async def test_the_id_of_a_deleted_trace_is_free_for_another_message(chat: MessageStore) -> None:
    await store_traces(chat, trace("m1", id="t1"))
    await chat.delete_message("m1")

    await store_traces(chat, trace("m2", id="t1"))

    assert await chat.get_turn_trace_by_message_id("m2") == trace("m2", id="t1")


async def test_a_conversations_traces_are_listed_by_turn_number(chat: MessageStore) -> None:
    await store_traces(
        chat,
        trace("m3", turn_number=10, started_at_ms=NOW),
        trace("m1", turn_number=-1, started_at_ms=NOW + 2),
        trace("m2", turn_number=9, started_at_ms=NOW + 1),
    )

    found = await chat.get_turn_traces_by_conversation_id("c1")

    assert [one.message_id for one in found] == ["m1", "m2", "m3"]


async def test_a_conversations_traces_are_its_own_alone(chat: MessageStore) -> None:
    await chat.store_conversation(conversation("c2"))
    await store_traces(chat, trace("m1"))
    await chat.store_turn(
        messages=[message("m2", conversation_id="c2")], trace=trace("m2", conversation_id="c2")
    )

    assert ids(await chat.get_turn_traces_by_conversation_id("c1")) == ["trace-of-m1"]
    assert ids(await chat.get_turn_traces_by_conversation_id("c2")) == ["trace-of-m2"]
    assert await chat.get_turn_traces_by_conversation_id("nowhere") == []


async def test_an_agents_traces_are_listed_newest_first(chat: MessageStore) -> None:
    await store_traces(
        chat,
        trace("m1", started_at_ms=NOW),
        trace("m2", started_at_ms=NOW + 1),
        trace("m3", started_at_ms=-1),
        trace("m4", agent_id="a2"),
    )

    found = await chat.get_turn_traces_by_agent_id("a1")

    assert [one.message_id for one in found] == ["m2", "m1", "m3"]


async def test_an_agents_equally_new_traces_are_listed_latest_stored_first(
    chat: MessageStore,
) -> None:
    await store_traces(chat, trace("m2"), trace("m3"), trace("m1"))

    await chat.store_turn_trace(trace("m2", detected_intent="changed"))

    found = await chat.get_turn_traces_by_agent_id("a1")
    assert [one.message_id for one in found] == ["m1", "m3", "m2"]


async def test_an_agents_traces_are_listed_from_an_offset_up_to_a_limit(
    chat: MessageStore,
) -> None:
    await store_traces(chat, *(trace(f"m{n}", started_at_ms=n) for n in range(1, 6)))

    assert ids(await chat.get_turn_traces_by_agent_id("a1", 2)) == ["trace-of-m5", "trace-of-m4"]
    assert ids(await chat.get_turn_traces_by_agent_id("a1", 2, 1)) == ["trace-of-m4", "trace-of-m3"]
    assert ids(await chat.get_turn_traces_by_agent_id("a1", offset=4)) == ["trace-of-m1"]
    assert await chat.get_turn_traces_by_agent_id("a1", limit=2, offset=5) == []
    assert await chat.get_turn_traces_by_agent_id("a1", limit=0) == []


async def test_an_agents_traces_are_a_hundred_unless_more_are_asked_for(
    chat: MessageStore,
) -> None:
    names = [f"m{number:03}" for number in range(101)]
    await chat.store_messages(messages(*names))
    await store_traces(chat, *(trace(name, started_at_ms=int(name[1:])) for name in names))

    assert len(await chat.get_turn_traces_by_agent_id("a1")) == 100
    assert ids(await chat.get_turn_traces_by_agent_id("a1", offset=100)) == ["trace-of-m000"]
    assert len(await chat.get_turn_traces_by_agent_id("a1", limit=1000)) == 101


async def test_a_trace_is_deleted_with_the_conversation_of_its_message(
    chat: MessageStore,
) -> None:
    await store_traces(chat, trace("m1"))

    await chat.delete_conversation("c1")

    assert await chat.get_turn_trace_by_id("trace-of-m1") is None
    assert await chat.get_turn_traces_by_conversation_id("c1") == []
