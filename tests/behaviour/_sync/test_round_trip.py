"""Whatever a store takes comes back as it was; whatever one back end can't hold, all refuse."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine import Entity
from jazzmine.sync.message_store import Message, MessageStore, TraceFilter, TurnTrace
from tests.behaviour.nasty import IMPOSSIBLE_VALUES, TEXTS, VALUES, nested
from tests.behaviour.samples import (
    conversation,
    full_message,
    full_trace,
    ids,
    message,
    tool_trace,
    trace,
)

LONE = "half of a \ud83d"

each_text = pytest.mark.parametrize("text", TEXTS)
each_value = pytest.mark.parametrize("value", VALUES)
each_impossible_value = pytest.mark.parametrize("value", IMPOSSIBLE_VALUES)


def typed(value: Any) -> str:
    """A value with the types of all that is in it: in Python 1 is 1.0 and True."""
    if isinstance(value, dict):
        return repr({key: typed(value[key]) for key in sorted(value)})
    return repr([typed(item) for item in value]) if isinstance(value, list) else repr(value)


# Text


@each_text
def test_text_comes_back_in_every_field_of_a_conversation(
    store: MessageStore, text: str
) -> None:
    stored = conversation(text, user_id=text, agent_id=text, title=text, metadata={"text": text})

    store.store_conversation(stored)

    assert store.get_conversation_by_id(text) == stored
    assert store.get_conversations_by_user_id(text) == [stored]
    assert store.get_conversations_by_agent_id(text) == [stored]
    assert store.get_conversations_by_user_id(text, after=text) == []


@each_text
def test_text_comes_back_in_every_field_of_a_message(store: MessageStore, text: str) -> None:
    stored = full_message(text, text, conversation_id=text, user_id=text, is_flagged=False)
    store.store_conversation(conversation(text))

    store.store_message(stored)

    assert store.get_message_by_id(text) == stored
    assert store.get_messages_by_ids([text]) == [stored]
    assert store.get_messages_by_conversation_id(text) == [stored]
    assert store.get_messages_by_user_id(text) == [stored]
    assert store.get_immediate_context(text, 1) == [stored]
    assert [found for found in store.iter_messages(text)] == [stored]


@each_text
def test_text_comes_back_in_every_field_of_a_trace(chat: MessageStore, text: str) -> None:
    stored = full_trace(
        text, text, id=text, conversation_id=text, user_id=text, agent_id=text, started_at_ms=0
    )
    chat.store_message(message(text))

    chat.store_turn_trace(stored)

    assert chat.get_turn_trace_by_id(text) == stored
    assert chat.get_turn_trace_by_message_id(text) == stored
    assert chat.get_turn_traces_by_conversation_id(text) == [stored]
    assert chat.get_turn_traces_by_agent_id(text) == [stored]


@each_text
def test_traces_are_found_and_summed_up_by_any_text(chat: MessageStore, text: str) -> None:
    stored = full_trace("m1", text, user_id=text, conversation_id=text, agent_id=text)
    chat.store_turn(messages=[message("m1")], trace=stored)
    chat.store_turn(messages=[message("m2")], trace=trace("m2"))
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


@each_text
def test_a_record_with_any_id_is_changed_flagged_and_deleted_by_it(
    store: MessageStore, text: str
) -> None:
    store.store_conversation(conversation("c1"))
    store.store_turn(
        conversation=conversation(text),
        messages=[message(text, conversation_id=text), message("m1")],
        trace=trace(text, id=text),
    )

    store.update_message(message(text, conversation_id=text, intent="changed"))
    assert store.flag_message(text) is True
    assert store.get_immediate_context(text, 1) == []
    assert store.delete_message(text) is True
    assert store.get_turn_trace_by_id(text) is None
    assert store.delete_conversation(text) is True

    assert ids(store.get_messages_by_user_id("u1")) == ["m1"]
    assert ids(store.get_conversations_by_user_id("u1")) == ["c1"]


def test_ids_that_look_alike_are_different_ids(store: MessageStore) -> None:
    alike = ["a", "A", "a ", " a", "a\0", "á", "a\u0301", "\uff41", "a\u200b", "aa", "%", "_", "*"]
    store.store_conversation(conversation())

    store.store_messages([message(name, user_id=name) for name in alike])

    assert ids(store.get_messages_by_conversation_id("c1")) == alike
    assert ids(store.get_messages_by_ids(reversed(alike))) == alike[::-1]
    found = [ids(store.get_messages_by_user_id(name)) for name in alike]
    assert found == [[name] for name in alike]


def test_what_was_read_can_be_stored_and_read_again(chat: MessageStore) -> None:
    chat.store_turn(messages=[full_message()], trace=full_trace())
    before = chat.get_message_by_id("m1"), chat.get_turn_trace_by_message_id("m1")
    assert before[0] is not None

    chat.store_turn(messages=[before[0]], trace=before[1])

    after = chat.get_message_by_id("m1"), chat.get_turn_trace_by_message_id("m1")
    assert after == before == (full_message(), full_trace())


# Nested values and numbers


@each_value
def test_a_value_comes_back_wherever_json_is_kept(chat: MessageStore, value: Any) -> None:
    stored = full_trace()
    stored.tool_traces[0].final_data = value
    stored.tool_traces[0].intermediates = [{"value": value}]
    stored.tool_traces[0].api_calls = [{"value": value}]
    stored.slot_events[0].value = value
    stored.emission_records[0].metadata = {"value": value}

    chat.store_conversation(conversation(metadata={"value": value}))
    chat.store_turn(messages=[message(metadata={"value": value})], trace=stored)

    whole = chat.get_conversation_by_id("c1")
    said = chat.get_message_by_id("m1")
    traced = chat.get_turn_trace_by_id("trace-of-m1")
    assert whole is not None
    assert said is not None
    assert traced is not None
    assert typed(whole.metadata) == typed({"value": value})
    assert typed(said.metadata) == typed({"value": value})
    assert typed(traced.model_dump()) == typed(stored.model_dump())


def test_64_levels_of_nesting_come_back(chat: MessageStore) -> None:
    # The metadata are the first level.
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


@pytest.mark.parametrize("number", [-1.0, -0.1, 0.0, 5e-324, 1 / 3, 1.0])
def test_floats_come_back_to_the_last_bit(chat: MessageStore, number: float) -> None:
    said = message(sentiment_score=number)
    traced = trace(total_energy_kwh=number, total_co2_g=number * 1e300, sentiment_score=number)

    chat.store_turn(messages=[said], trace=traced)

    assert chat.get_message_by_id("m1") == said
    assert chat.get_turn_trace_by_message_id("m1") == traced


# What all refuse


@each_impossible_value
def test_an_impossible_value_is_refused_where_it_was_put_after_construction(
    chat: MessageStore, value: Any
) -> None:
    chat.store_message(message())
    wrong = message(original_content="other words")
    wrong.metadata["key"] = value

    with pytest.raises(ValidationError, match=r"(?s)metadata.*\['key'\]"):
        chat.store_message(wrong)

    assert chat.get_messages_by_user_id("u1") == [message()]


@each_impossible_value
def test_an_impossible_value_is_refused_in_a_copy_with_changes(
    chat: MessageStore, value: Any
) -> None:
    wrong = conversation().model_copy(update={"metadata": {"key": value}})

    with pytest.raises(ValidationError, match=r"(?s)metadata.*\['key'\]"):
        chat.store_conversation(wrong)

    assert chat.get_conversation_by_id("c1") == conversation()


@each_impossible_value
def test_an_impossible_value_is_refused_deep_in_a_trace(
    chat: MessageStore, value: Any
) -> None:
    chat.store_message(message())
    wrong = full_trace()
    wrong.tool_traces[0].intermediates.append({"key": value})

    with pytest.raises(ValidationError, match=r"(?s)tool_traces\.0\.intermediates\.1.*\['key'\]"):
        chat.store_turn_trace(wrong)

    assert chat.get_turn_trace_by_message_id("m1") is None


@each_impossible_value
def test_an_impossible_value_is_refused_in_a_filter(store: MessageStore, value: Any) -> None:
    where = TraceFilter().model_copy(update={"tool": {"final_data": value}})

    with pytest.raises(ValidationError, match="tool"):
        store.find_turn_traces(where)


@each_impossible_value
def test_an_impossible_value_is_refused_at_construction(value: Any) -> None:
    with pytest.raises(ValidationError, match="metadata"):
        message(metadata={"key": value})
    with pytest.raises(ValidationError, match="final_data"):
        tool_trace(final_data=value)


def test_a_value_that_holds_itself_is_refused(chat: MessageStore) -> None:
    wrong = message()
    wrong.metadata["itself"] = wrong.metadata

    with pytest.raises(ValidationError, match="metadata"):
        chat.store_message(wrong)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""),
        ("id", 1),
        ("id", {"$ne": None}),
        ("id", LONE),
        ("conversation_id", None),
        ("conversation_id", LONE),
        ("user_id", ""),
        ("user_id", LONE),
        ("role", "nobody"),
        ("original_content", None),
        ("original_content", LONE),
        ("enhanced_message", LONE),
        ("explicit_context", ["fine", LONE]),
        ("explicit_context", "text"),
        ("episode_id", 2**63),
        ("episode_id", 1.5),
        ("sentiment_score", 1.01),
        ("sentiment_score", float("nan")),
        ("sentiment_score", float("-inf")),
        ("intent", LONE),
        ("entities", [{"name": LONE}]),
        ("entities", [{"name": "a", "attributes": [LONE]}]),
        ("entities", [{"name": "a", "colour": "red"}]),
        ("is_flagged", None),
        ("timestamp", 2**63),
        ("timestamp", -(2**63) - 1),
        ("timestamp", "soon"),
        ("invoked_flows", [LONE]),
        ("invoked_tools", [1]),
        ("reasoning_steps", [LONE]),
        ("errors", [None]),
        ("metadata", None),
        ("metadata", [1]),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else type(value).__name__,
)
def test_a_field_made_wrong_is_refused_by_its_name(
    chat: MessageStore, field: str, value: Any
) -> None:
    wrong = message().model_copy(update={field: value})

    with pytest.raises(ValidationError, match=field):
        chat.store_message(wrong)

    assert chat.get_messages_by_conversation_id("c1") == []


def test_lists_that_were_made_wrong_in_place_are_refused(chat: MessageStore) -> None:
    wrong = full_message()
    wrong.entities[0].attributes.append(LONE)
    assert wrong.explicit_context is not None
    wrong.explicit_context.append(None)  # type: ignore[arg-type]

    with pytest.raises(ValidationError) as caught:
        chat.store_message(wrong)

    places = [error["loc"] for error in caught.value.errors()]
    assert places == [("explicit_context", 2), ("entities", 0, "attributes", 2)]
    assert chat.get_message_by_id("m1") is None


def test_records_in_a_trace_that_were_made_wrong_are_refused(chat: MessageStore) -> None:
    chat.store_message(message())
    wrong = full_trace()
    wrong.llm_calls[0] = wrong.llm_calls[0].model_copy(update={"latency_ms": 2**63})
    wrong.flow_events[0] = wrong.flow_events[0].model_copy(update={"event": "forgotten"})
    wrong.detected_entities.append(LONE)

    with pytest.raises(ValidationError) as caught:
        chat.store_turn_trace(wrong)

    places = [error["loc"] for error in caught.value.errors()]
    assert places == [
        ("llm_calls", 0, "latency_ms"),
        ("flow_events", 0, "event"),
        ("detected_entities", 1),
    ]
    assert chat.get_turn_trace_by_message_id("m1") is None


def test_records_made_without_a_check_are_checked_when_they_are_stored(
    chat: MessageStore,
) -> None:
    unchecked = Message.model_construct(**{**message().model_dump(), "timestamp": "soon"})

    with pytest.raises(ValidationError, match="timestamp"):
        chat.store_message(unchecked)
    with pytest.raises(ValidationError, match="original_content"):
        chat.store_message(Message.model_construct(id="m1"))
    with pytest.raises(ValidationError, match="message_id"):
        chat.store_turn_trace(TurnTrace.model_construct(id="t1"))


def test_a_field_that_a_record_does_not_have_is_refused() -> None:
    with pytest.raises(ValidationError, match="colour"):
        message(colour="red")
    with pytest.raises(ValidationError, match="colour"):
        conversation(colour="red")
    with pytest.raises(ValidationError, match="colour"):
        trace(colour="red")
    with pytest.raises(ValidationError, match="colour"):
        Entity(name="a", colour="red")  # type: ignore[call-arg]


def test_of_several_messages_with_a_wrong_one_none_is_stored(chat: MessageStore) -> None:
    wrong = message("m2").model_copy(update={"original_content": LONE})

    with pytest.raises(ValidationError, match="original_content"):
        chat.store_messages([message("m1"), wrong, message("m3")])

    assert chat.get_messages_by_user_id("u1") == []
