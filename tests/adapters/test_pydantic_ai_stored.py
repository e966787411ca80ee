"""What the messages of a conversation of Pydantic AI hold, and what changes of them do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai import BinaryContent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationStore,
)
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
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.pydantic_ai_conversations import answered, asked, loaded, talk


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


def test_a_store_is_used_from_several_loops(sync_store: SyncMessageStore) -> None:
    conversations = JazzmineConversationStore(sync_store, agent_id="a1", user_id="u1")
    asyncio.run(_save(conversations, talk("c1", "one")))

    assert asyncio.run(loaded(conversations, "c1")) == ["one"]


async def _save(conversations: ConversationStore, conversation: Conversation) -> None:
    await conversations.save(conversation)


# Lossless: what the framework's own serializer keeps

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
all_messages = st.lists(
    st.one_of(
        st.text().map(asked),
        st.text().map(answered),
        st.binary().map(
            lambda data: ModelRequest(
                parts=[UserPromptPart(["\x00", BinaryContent(data, media_type="application/pdf")])]
            )
        ),
        st.tuples(st.text(), st.dictionaries(st.text(), json_values, max_size=3)).map(
            lambda given: ModelResponse(parts=[ToolCallPart(given[0], given[1])])
        ),
        json_values.map(
            lambda value: ModelRequest(parts=[ToolReturnPart("t", value, tool_call_id="k")])
        ),
    ),
    max_size=4,
)


@given(messages=all_messages)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_messages_come_back_equal(sync_store: SyncMessageStore, messages: list[Any]) -> None:
    conversations = JazzmineConversationStore(sync_store, agent_id="a1", user_id="u1")
    conversation = Conversation(messages=messages)

    async def saved_and_loaded() -> Conversation | None:
        await conversations.save(conversation)
        return await conversations.load(conversation.conversation_id)

    assert asyncio.run(saved_and_loaded()) == conversation


async def test_a_large_message_comes_back_equal(conversations: JazzmineConversationStore) -> None:
    await conversations.save(talk("c1", "x" * 1_000_000))

    assert await loaded(conversations, "c1") == ["x" * 1_000_000]
