"""A message has at most one trace; traces are found by id, message, conversation and agent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from jazzmine import EmissionRecord
from jazzmine.core.message_store import MessageStore, TurnTrace
from tests.behaviour.samples import (
    ids,
    messages,
    trace,
)
from tests.behaviour.writes import store_traces


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


async def test_an_agents_traces_are_a_hundred_unless_more_are_asked_for(
    chat: MessageStore,
) -> None:
    names = [f"m{number:03}" for number in range(101)]
    await chat.store_messages(messages(*names))
    await store_traces(chat, *(trace(name, started_at_ms=int(name[1:])) for name in names))

    assert len(await chat.get_turn_traces_by_agent_id("a1")) == 100
    assert ids(await chat.get_turn_traces_by_agent_id("a1", offset=100)) == ["trace-of-m000"]
    assert len(await chat.get_turn_traces_by_agent_id("a1", limit=1000)) == 101
