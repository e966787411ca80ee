"""Every value that a store accepts is returned unchanged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from jazzmine import EmissionRecord
from jazzmine.core.message_store import MessageStore, TraceFilter
from tests.behaviour.edge_values import TEXTS, VALUES, nested
from tests.behaviour.samples import (
    conversation,
    full_message,
    full_trace,
    ids,
    message,
    tool_trace,
    trace,
)


def typed(value: Any) -> str:
    """Return a value with the types of all its parts, because 1 equals 1.0 and True in Python."""
    if isinstance(value, dict):
        return repr({key: typed(value[key]) for key in sorted(value)})
    return repr([typed(item) for item in value]) if isinstance(value, list) else repr(value)


# Text


@pytest.mark.variants
async def test_text_comes_back_in_every_field_and_names_records(store: MessageStore) -> None:
    for text in TEXTS:
        whole = conversation(text, user_id=text, agent_id=text, title=text, metadata={"t": text})
        said = full_message(text, text, conversation_id=text, user_id=text, is_flagged=False)
        traced = full_trace(
            text, text, id=text, conversation_id=text, user_id=text, agent_id=text, started_at_ms=0
        )
        await store.store_conversation(whole)
        await store.store_message(said)
        await store.store_turn_trace(traced)

        assert await store.get_conversation_by_id(text) == whole
        assert await store.get_conversations_by_user_id(text) == [whole]
        assert await store.get_conversations_by_agent_id(text) == [whole]
        assert await store.get_conversations_by_user_id(text, after=text) == []
        assert await store.get_message_by_id(text) == said
        assert await store.get_messages_by_ids([text]) == [said]
        assert await store.get_messages_by_conversation_id(text) == [said]
        assert await store.get_messages_by_user_id(text) == [said]
        assert await store.get_immediate_context(text, 1) == [said]
        assert [found async for found in store.iter_messages(text)] == [said]
        assert await store.get_turn_trace_by_id(text) == traced
        assert await store.get_turn_trace_by_message_id(text) == traced
        assert await store.get_turn_traces_by_conversation_id(text) == [traced]
        assert await store.get_turn_traces_by_agent_id(text) == [traced]

        assert await store.flag_message(text) is True
        assert await store.get_immediate_context(text, 1) == []
        assert await store.delete_message(text) is True
        assert await store.get_turn_trace_by_id(text) is None
        assert await store.delete_conversation(text) is True
        assert await store.get_conversations() == []


async def test_traces_are_found_and_summed_up_by_any_text(chat: MessageStore) -> None:
    await chat.store_turn(messages=[message("other")], trace=trace("other"))
    for number, text in enumerate(TEXTS):
        stored = full_trace(f"m{number}", text, user_id=text, conversation_id=text, agent_id=text)
        await chat.store_turn(
            conversation=conversation(text),
            messages=[message(f"m{number}", conversation_id=text)],
            trace=stored,
        )
        where = TraceFilter(
            agent_id=text,
            user_id=text,
            conversation_id=text,
            intent=text,
            tool={"sandbox": text, "api_calls": [{"url": text, "status": 200}]},
            llm_call={"model": text, "error": text},
        )

        assert await chat.find_turn_traces(where) == [stored]
        assert [group.key for group in await chat.summarize_usage(where, by="agent")] == [text]
        assert [group.key for group in await chat.summarize_usage(where, by="intent")] == [text]
        assert [group.key for group in await chat.summarize_usage(where, by="model")] == [text]


async def test_ids_that_look_alike_are_different_ids(store: MessageStore) -> None:
    alike = ["a", "A", "a ", " a", "a\0", "á", "a\u0301", "\uff41", "a\u200b", "aa", "%", "_", "*"]
    await store.store_conversation(conversation())

    await store.store_messages([message(name, user_id=name) for name in alike])

    assert ids(await store.get_messages_by_conversation_id("c1")) == alike
    assert ids(await store.get_messages_by_ids(reversed(alike))) == alike[::-1]
    found = [ids(await store.get_messages_by_user_id(name)) for name in alike]
    assert found == [[name] for name in alike]


# Nested values and numbers


@pytest.mark.variants
async def test_a_value_comes_back_wherever_json_is_kept(chat: MessageStore) -> None:
    values = {"value": {str(number): value for number, value in enumerate(VALUES)}}
    stored = full_trace()
    stored.tool_traces[0].final_data = VALUES
    stored.tool_traces[0].intermediates = [values]
    stored.tool_traces[0].api_calls = [values]
    stored.slot_events[0].value = VALUES
    stored.emission_records[0].metadata = values

    await chat.store_conversation(conversation(metadata=values))
    await chat.store_turn(messages=[message(metadata=values)], trace=stored)

    whole = await chat.get_conversation_by_id("c1")
    said = await chat.get_message_by_id("m1")
    traced = await chat.get_turn_trace_by_id("trace-of-m1")
    assert whole is not None
    assert said is not None
    assert traced is not None
    assert typed(whole.metadata) == typed(values)
    assert typed(said.metadata) == typed(values)
    assert typed(traced.model_dump()) == typed(stored.model_dump())


async def test_64_levels_of_nesting_come_back(chat: MessageStore) -> None:
    # The metadata itself is the first level.
    stored = message(metadata={"deep": nested(63)})

    await chat.store_turn(
        messages=[stored], trace=trace(tool_traces=[tool_trace(final_data=nested(64))])
    )

    assert await chat.get_message_by_id("m1") == stored
    found = await chat.get_turn_trace_by_message_id("m1")
    assert found is not None
    assert found.tool_traces[0].final_data == nested(64)


async def test_a_tuple_comes_back_as_the_list_that_it_is_in_json(chat: MessageStore) -> None:
    await chat.store_message(message(metadata={"pair": (1, (2, "x"))}))

    found = await chat.get_message_by_id("m1")

    assert found is not None
    assert typed(found.metadata) == typed({"pair": [1, [2, "x"]]})


@pytest.mark.variants
@pytest.mark.each_value
@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0])
async def test_integers_of_64_bits_come_back_in_every_field(
    store: MessageStore, number: int
) -> None:
    whole = conversation(created_at=number, last_updated_at=number)
    said = message(timestamp=number, episode_id=number)
    traced = trace(
        turn_number=number,
        started_at_ms=number,
        ended_at_ms=number,
        total_latency_ms=number,
        total_prompt_tokens=number,
        total_completion_tokens=number,
        total_tokens=number,
        tool_traces=[tool_trace(task_index=number, peak_memory_bytes=number)],
    )

    await store.store_turn(conversation=whole, messages=[said], trace=traced)

    assert await store.get_conversation_by_id("c1") == whole
    assert await store.get_message_by_id("m1") == said
    assert await store.get_turn_trace_by_message_id("m1") == traced
    assert await store.find_turn_traces(TraceFilter(started_from=number)) == [traced]


@pytest.mark.variants
async def test_floats_come_back_to_the_last_bit(chat: MessageStore) -> None:
    for number in (-1.0, -0.1, 0.0, 5e-324, 1 / 3, 1.0):
        said = message(sentiment_score=number)
        traced = trace(total_energy_kwh=number, total_co2_g=number * 1e300, sentiment_score=number)

        await chat.store_turn(messages=[said], trace=traced)

        assert await chat.get_message_by_id("m1") == said
        assert await chat.get_turn_trace_by_message_id("m1") == traced


async def test_a_moment_comes_back_to_the_microsecond_in_utc(chat: MessageStore) -> None:
    in_lisbon = datetime(2024, 7, 1, 12, 0, 0, 1, tzinfo=timezone(timedelta(hours=1)))
    naive = datetime(2024, 7, 1, 11, 0, 0, 999999)
    records = [EmissionRecord(type="llm", timestamp=moment) for moment in (in_lisbon, naive)]
    await chat.store_turn(messages=[message()], trace=trace(emission_records=records))

    found = await chat.get_turn_trace_by_message_id("m1")

    assert found is not None
    moments = [record.timestamp for record in found.emission_records]
    assert moments == [in_lisbon, naive.replace(tzinfo=UTC)]
    assert [moment.utcoffset() for moment in moments] == [timedelta(0), timedelta(0)]
