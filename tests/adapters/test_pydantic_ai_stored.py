"""What the messages of a conversation of Pydantic AI hold, and what changes of them do."""

from __future__ import annotations

import pytest
from pydantic_ai import BinaryContent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from jazzmine.adapters.pydantic_ai import JazzmineConversationStore
from jazzmine.core import MessageStore


@pytest.fixture
def conversations(store: MessageStore) -> JazzmineConversationStore:
    return JazzmineConversationStore(store, agent_id="a1", user_id="u1")


async def test_a_person_can_read_the_conversation(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    picture = BinaryContent(b"\x00\xff", media_type="application/pdf")
    messages: list[ModelMessage] = [
        ModelRequest(parts=[SystemPromptPart("Be kind.")]),
        ModelRequest(parts=[SystemPromptPart("Short."), UserPromptPart(["Look:", picture])]),
        ModelResponse(
            parts=[TextPart("Wait."), ToolCallPart("weather", {"city": "X"}, tool_call_id="k")]
        ),
        ModelRequest(parts=[ToolReturnPart("weather", {"sky": "rain"}, tool_call_id="k")]),
        ModelRequest(parts=[ToolReturnPart("weather", "Again.", tool_call_id="k")]),
        ModelResponse(parts=[ThinkingPart("Hm."), TextPart("Rain.")]),
    ]
    conversation = Conversation(conversation_id="c1", messages=messages)
    await conversations.save(conversation)

    shown = await store.get_immediate_context("c1", 10)

    assert [one.role.value for one in shown] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert [one.original_content.splitlines()[0] for one in shown] == [
        "Be kind.",
        "Look:",
        "Wait.",
        '{"sky":"rain"}',
        "Again.",
        "Hm.",
    ]
    assert shown[2].original_content == 'Wait.\nweather({"city":"X"})'
    assert shown[2].invoked_tools == ["weather"]
    again = await conversations.load("c1")
    assert again is not None
    assert again.messages == messages


# Lossless: what the framework's own serializer keeps
