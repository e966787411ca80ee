"""A turn is stored completely or not at all, and may be stored again."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine import TurnRecorder
from jazzmine.core.message_store import MessageStore, TraceFilter
from tests.behaviour.samples import conversation, full_trace, message


async def everything(store: MessageStore) -> list[Any]:
    """Return all records of conversations "c1" and "c2", and of their users and agents."""
    return [
        await store.get_conversations_by_user_id("u1"),
        await store.get_conversation_by_id("c2"),
        await store.get_messages_by_user_id("u1"),
        await store.get_turn_traces_by_agent_id("a1"),
        await store.get_turn_trace_by_message_id("m1"),
    ]


async def test_a_recorded_turn_is_stored_as_it_was_recorded(chat: MessageStore) -> None:
    recorder = TurnRecorder(conversation_id="c1", user_id="u1", agent_id="a1", turn_number=1)
    recorder.user("Where is my order?")
    with recorder.model_call("small-1", provider="openai") as model:
        model.usage(prompt_tokens=9, completion_tokens=2, cached_prompt_tokens=4, cost_usd=0.25)
    with recorder.tool_call("find_order", {"id": 4711}, call_id="call-1") as tool:
        tool.error("no such order")
    recorder.assistant("I cannot find it.")

    await chat.store_turn(messages=recorder.messages, trace=recorder.trace)

    assert await chat.get_messages_by_conversation_id("c1") == recorder.messages
    where = TraceFilter(tool={"tool_name": "find_order", "success": False})
    assert await chat.find_turn_traces(where) == [recorder.trace]


async def test_a_turn_with_a_trace_that_no_back_end_can_hold_stores_nothing(
    chat: MessageStore,
) -> None:
    before = await everything(chat)
    wrong = full_trace()
    wrong.tool_traces[0].intermediates[0]["live"] = object()

    with pytest.raises(ValidationError, match="intermediates"):
        await chat.store_turn(
            conversation=conversation(title="Another title"), messages=[message()], trace=wrong
        )

    assert await everything(chat) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"conversation": {"id": "c1"}},
        {"messages": [{"id": "m1"}]},
        {"messages": ["m1"]},
        {"trace": {"id": "t1"}},
        {"trace": message()},
    ],
    ids=str,
)
async def test_a_turn_of_something_else_than_records_is_refused(
    chat: MessageStore, wrong: dict[str, Any]
) -> None:
    before = await everything(chat)

    with pytest.raises(TypeError, match="expected a"):
        await chat.store_turn(**{"conversation": conversation(title="Another title"), **wrong})

    assert await everything(chat) == before
