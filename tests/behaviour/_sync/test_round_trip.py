"""Every value that a store accepts is returned unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine.sync.message_store import MessageStore, TraceFilter
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
def test_text_comes_back_in_every_field_of_a_conversation(store: MessageStore) -> None:
    for text in TEXTS:
        stored = conversation(
            text, user_id=text, agent_id=text, title=text, metadata={"text": text}
        )

        store.store_conversation(stored)

        assert store.get_conversation_by_id(text) == stored
        assert store.get_conversations_by_user_id(text) == [stored]
        assert store.get_conversations_by_agent_id(text) == [stored]
        assert store.get_conversations_by_user_id(text, after=text) == []


@pytest.mark.variants
def test_text_comes_back_in_every_field_of_a_message(store: MessageStore) -> None:
    for text in TEXTS:
        stored = full_message(text, text, conversation_id=text, user_id=text, is_flagged=False)
        store.store_conversation(conversation(text))

        store.store_message(stored)

        assert store.get_message_by_id(text) == stored
        assert store.get_messages_by_ids([text]) == [stored]
        assert store.get_messages_by_conversation_id(text) == [stored]
        assert store.get_messages_by_user_id(text) == [stored]
        assert store.get_immediate_context(text, 1) == [stored]
        assert [found for found in store.iter_messages(text)] == [stored]


@pytest.mark.variants
def test_text_comes_back_in_every_field_of_a_trace(store: MessageStore) -> None:
    for text in TEXTS:
        stored = full_trace(
            text, text, id=text, conversation_id=text, user_id=text, agent_id=text, started_at_ms=0
        )
        store.store_turn(
            conversation=conversation(text), messages=[message(text, conversation_id=text)]
        )

        store.store_turn_trace(stored)

        assert store.get_turn_trace_by_id(text) == stored
        assert store.get_turn_trace_by_message_id(text) == stored
        assert store.get_turn_traces_by_conversation_id(text) == [stored]
        assert store.get_turn_traces_by_agent_id(text) == [stored]


def test_traces_are_found_and_summed_up_by_any_text(chat: MessageStore) -> None:
    chat.store_turn(messages=[message("other")], trace=trace("other"))
    for number, text in enumerate(TEXTS):
        stored = full_trace(f"m{number}", text, user_id=text, conversation_id=text, agent_id=text)
        chat.store_turn(
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

        assert chat.find_turn_traces(where) == [stored]
        assert [group.key for group in chat.summarize_usage(where, by="agent")] == [text]
        assert [group.key for group in chat.summarize_usage(where, by="intent")] == [text]
        assert [group.key for group in chat.summarize_usage(where, by="model")] == [text]


def test_a_record_with_any_id_is_changed_flagged_and_deleted_by_it(
    chat: MessageStore,
) -> None:
    chat.store_message(message("m1"))
    for text in TEXTS:
        chat.store_turn(
            conversation=conversation(text),
            messages=[message(text, conversation_id=text)],
            trace=trace(text, id=text, conversation_id=text),
        )

        chat.update_message(message(text, conversation_id=text, intent="changed"))
        assert chat.flag_message(text) is True
        assert chat.get_immediate_context(text, 1) == []
        assert chat.delete_message(text) is True
        assert chat.get_turn_trace_by_id(text) is None
        assert chat.delete_conversation(text) is True

        assert ids(chat.get_messages_by_user_id("u1")) == ["m1"]
        assert ids(chat.get_conversations_by_user_id("u1")) == ["c1"]


def test_ids_that_look_alike_are_different_ids(store: MessageStore) -> None:
    alike = ["a", "A", "a ", " a", "a\0", "á", "a\u0301", "\uff41", "a\u200b", "aa", "%", "_", "*"]
    store.store_conversation(conversation())

    store.store_messages([message(name, user_id=name) for name in alike])

    assert ids(store.get_messages_by_conversation_id("c1")) == alike
    assert ids(store.get_messages_by_ids(reversed(alike))) == alike[::-1]
    found = [ids(store.get_messages_by_user_id(name)) for name in alike]
    assert found == [[name] for name in alike]


def test_a_record_that_was_read_can_be_stored_and_read_again(chat: MessageStore) -> None:
    chat.store_turn(messages=[full_message()], trace=full_trace())
    before = chat.get_message_by_id("m1"), chat.get_turn_trace_by_message_id("m1")
    assert before[0] is not None

    chat.store_turn(messages=[before[0]], trace=before[1])

    after = chat.get_message_by_id("m1"), chat.get_turn_trace_by_message_id("m1")
    assert after == before == (full_message(), full_trace())


# Nested values and numbers


@pytest.mark.variants
def test_a_value_comes_back_wherever_json_is_kept(chat: MessageStore) -> None:
    values = {"value": {str(number): value for number, value in enumerate(VALUES)}}
    stored = full_trace()
    stored.tool_traces[0].final_data = VALUES
    stored.tool_traces[0].intermediates = [values]
    stored.tool_traces[0].api_calls = [values]
    stored.slot_events[0].value = VALUES
    stored.emission_records[0].metadata = values

    chat.store_conversation(conversation(metadata=values))
    chat.store_turn(messages=[message(metadata=values)], trace=stored)

    whole = chat.get_conversation_by_id("c1")
    said = chat.get_message_by_id("m1")
    traced = chat.get_turn_trace_by_id("trace-of-m1")
    assert whole is not None
    assert said is not None
    assert traced is not None
    assert typed(whole.metadata) == typed(values)
    assert typed(said.metadata) == typed(values)
    assert typed(traced.model_dump()) == typed(stored.model_dump())


def test_64_levels_of_nesting_come_back(chat: MessageStore) -> None:
    # The metadata itself is the first level.
    stored = message(metadata={"deep": nested(63)})

    chat.store_turn(
        messages=[stored], trace=trace(tool_traces=[tool_trace(final_data=nested(64))])
    )

    assert chat.get_message_by_id("m1") == stored
    found = chat.get_turn_trace_by_message_id("m1")
    assert found is not None
    assert found.tool_traces[0].final_data == nested(64)


def test_a_tuple_comes_back_as_the_list_that_it_is_in_json(chat: MessageStore) -> None:
    chat.store_message(message(metadata={"pair": (1, (2, "x"))}))

    found = chat.get_message_by_id("m1")

    assert found is not None
    assert typed(found.metadata) == typed({"pair": [1, [2, "x"]]})


@pytest.mark.variants
@pytest.mark.each_value
@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0])
def test_integers_of_64_bits_come_back_in_every_field(
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

    store.store_turn(conversation=whole, messages=[said], trace=traced)

    assert store.get_conversation_by_id("c1") == whole
    assert store.get_message_by_id("m1") == said
    assert store.get_turn_trace_by_message_id("m1") == traced
    assert store.find_turn_traces(TraceFilter(started_from=number)) == [traced]


@pytest.mark.variants
def test_floats_come_back_to_the_last_bit(chat: MessageStore) -> None:
    for number in (-1.0, -0.1, 0.0, 5e-324, 1 / 3, 1.0):
        said = message(sentiment_score=number)
        traced = trace(total_energy_kwh=number, total_co2_g=number * 1e300, sentiment_score=number)

        chat.store_turn(messages=[said], trace=traced)

        assert chat.get_message_by_id("m1") == said
        assert chat.get_turn_trace_by_message_id("m1") == traced
