"""A value that one back end cannot store is refused by all; the error names the field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine import Entity
from jazzmine.core.message_store import Message, MessageStore, TraceFilter, TurnTrace
from tests.behaviour.edge_values import IMPOSSIBLE_VALUES
from tests.behaviour.samples import conversation, full_trace, message, tool_trace, trace

pytestmark = pytest.mark.before_hooks

LONE = "half of a \ud83d"


each_impossible_value = pytest.mark.parametrize("value", IMPOSSIBLE_VALUES)


@each_impossible_value
async def test_an_impossible_value_is_refused_where_it_was_put_after_construction(
    chat: MessageStore, value: Any
) -> None:
    await chat.store_message(message())
    wrong = message(original_content="other words")
    wrong.metadata["key"] = value

    with pytest.raises(ValidationError, match=r"(?s)metadata.*\['key'\]"):
        await chat.store_message(wrong)

    assert await chat.get_messages_by_user_id("u1") == [message()]


@each_impossible_value
async def test_an_impossible_value_is_refused_in_a_filter(store: MessageStore, value: Any) -> None:
    where = TraceFilter().model_copy(update={"tool": {"final_data": value}})

    with pytest.raises(ValidationError, match="tool"):
        await store.find_turn_traces(where)


@each_impossible_value
async def test_an_impossible_value_is_refused_at_construction(value: Any) -> None:
    with pytest.raises(ValidationError, match="metadata"):
        message(metadata={"key": value})
    with pytest.raises(ValidationError, match="final_data"):
        tool_trace(final_data=value)


async def test_a_value_that_holds_itself_is_refused(chat: MessageStore) -> None:
    wrong = message()
    wrong.metadata["itself"] = wrong.metadata

    with pytest.raises(ValidationError, match="metadata"):
        await chat.store_message(wrong)


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
async def test_a_field_made_wrong_is_refused_by_its_name(
    chat: MessageStore, field: str, value: Any
) -> None:
    wrong = message().model_copy(update={field: value})

    with pytest.raises(ValidationError, match=field):
        await chat.store_message(wrong)

    assert await chat.get_messages_by_conversation_id("c1") == []


async def test_records_in_a_trace_that_were_made_wrong_are_refused(chat: MessageStore) -> None:
    await chat.store_message(message())
    wrong = full_trace()
    wrong.llm_calls[0] = wrong.llm_calls[0].model_copy(update={"latency_ms": 2**63})
    wrong.flow_events[0] = wrong.flow_events[0].model_copy(update={"event": "forgotten"})
    wrong.detected_entities.append(LONE)

    with pytest.raises(ValidationError) as caught:
        await chat.store_turn_trace(wrong)

    places = [error["loc"] for error in caught.value.errors()]
    assert places == [
        ("llm_calls", 0, "latency_ms"),
        ("flow_events", 0, "event"),
        ("detected_entities", 1),
    ]
    assert await chat.get_turn_trace_by_message_id("m1") is None


async def test_records_made_without_a_check_are_checked_when_they_are_stored(
    chat: MessageStore,
) -> None:
    unchecked = Message.model_construct(**{**message().model_dump(), "timestamp": "soon"})

    with pytest.raises(ValidationError, match="timestamp"):
        await chat.store_message(unchecked)
    with pytest.raises(ValidationError, match="original_content"):
        await chat.store_message(Message.model_construct(id="m1"))
    with pytest.raises(ValidationError, match="message_id"):
        await chat.store_turn_trace(TurnTrace.model_construct(id="t1"))


async def test_a_field_that_a_record_does_not_have_is_refused() -> None:
    with pytest.raises(ValidationError, match="colour"):
        message(colour="red")
    with pytest.raises(ValidationError, match="colour"):
        conversation(colour="red")
    with pytest.raises(ValidationError, match="colour"):
        trace(colour="red")
    with pytest.raises(ValidationError, match="colour"):
        Entity(name="a", colour="red")  # type: ignore[call-arg]
