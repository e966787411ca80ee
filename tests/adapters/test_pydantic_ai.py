"""Conversations of Pydantic AI: saving, loading, scopes and listing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from pydantic_ai import BinaryContent, DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationRecord
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
from pydantic_ai.usage import RunUsage

from jazzmine.adapters.pydantic_ai import JazzmineConversationStore
from jazzmine.core import MessageStore
from tests.adapters.scripted_pydantic_ai import loaded, talk


async def test_a_conversation_comes_back_as_it_was(
    conversations: JazzmineConversationStore,
) -> None:
    saved = talk("c1", "one", "two")
    saved.usage = RunUsage(requests=1, input_tokens=2**70, details={"cached": 3})
    saved.deferred_tool_requests = DeferredToolRequests(
        approvals=[ToolCallPart("pay", {"amount": 3}, tool_call_id="k")],
        metadata={"k": {"why": "large"}},
    )
    await conversations.save(saved, scope="u7")

    assert await conversations.load("c1") == saved


async def test_of_saves_at_once_one_succeeds(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    saves = (conversations.save(talk("c1", f"{n} 0", f"{n} 1")) for n in range(6))
    results = await asyncio.gather(*saves, return_exceptions=True)

    failed = [one for one in results if isinstance(one, BaseException)]
    assert [type(one) for one in failed] == [ConversationConflict] * 5
    assert len(await store.get_messages_by_conversation_id("c1")) == 2
    assert await conversations.load("c1") is not None


async def test_a_head_that_is_not_stored_is_a_conflict(
    conversations: JazzmineConversationStore,
) -> None:
    record = ConversationRecord(conversation_id="c1", head_id="nowhere")
    with pytest.raises(ConversationConflict):
        await conversations.write_record(record, expected_revision=None)

    assert await conversations.read_record("c1") is None


async def test_a_missing_entry_is_a_lookup_error(conversations: JazzmineConversationStore) -> None:
    with pytest.raises(LookupError):
        await conversations.read_entry("nowhere")
    with pytest.raises(LookupError):
        await conversations.read_history("nowhere")


async def test_an_entry_is_read_by_its_id(conversations: JazzmineConversationStore) -> None:
    entries = await conversations.save(talk("c1", "one", "two"))

    assert [await conversations.read_entry(entry.id) for entry in entries] == entries


# Scopes and listing


async def test_records_are_listed_by_microseconds(
    conversations: JazzmineConversationStore,
) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for name, offset in (("c1", 1), ("c2", 3), ("c3", 2)):
        record = ConversationRecord(
            conversation_id=name, head_id=None, updated_at=now + timedelta(microseconds=offset)
        )
        await conversations.write_record(record, expected_revision=None)

    listed = await conversations.list_conversations()

    assert [one.conversation_id for one in listed] == ["c2", "c3", "c1"]
    assert listed[0].updated_at == now + timedelta(microseconds=3)


async def test_the_scope_is_applied_before_the_limit(
    conversations: JazzmineConversationStore,
) -> None:
    for number in range(40):
        scope = (None, "", "u1", "u2")[number % 4]
        await conversations.save(talk(f"c{number}", "one"), scope=scope)

    async def listed(scope: str | None, limit: int | None = None) -> list[str]:
        found = await conversations.list_conversations(scope=scope, limit=limit)
        return [one.conversation_id for one in found]

    assert await listed(None) == [f"c{number}" for number in range(39, -1, -1)]
    assert await listed(None, 3) == ["c39", "c38", "c37"]
    assert await listed("", 2) == ["c37", "c33"]
    assert await listed("u1", 2) == ["c38", "c34"]
    assert await listed("u2", 0) == []
    assert await listed("u3") == []


async def test_conversations_of_other_agents_are_not_listed(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    await conversations.save(talk("c1", "one"), scope="u1")
    other = JazzmineConversationStore(store, agent_id="a2")

    assert await other.list_conversations() == []
    assert await other.list_conversations(scope="u1") == []


async def test_a_scope_is_the_user(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    await conversations.save(talk("c1", "one"), scope="u7")
    await conversations.save(talk("c2", "two"))

    erased = await store.erase_user("u7")

    assert (erased.conversations, erased.messages) == (1, 1)
    assert await conversations.load("c1") is None
    assert await loaded(conversations, "c2") == ["two"]


async def test_a_conversation_without_a_user_is_a_value_error(store: MessageStore) -> None:
    with pytest.raises(ValueError, match="missing"):
        await JazzmineConversationStore(store, agent_id="a1").save(talk("c1", "one"))
    with pytest.raises(ValueError, match="agent_id is missing"):
        JazzmineConversationStore(store, agent_id="")
    with pytest.raises(ValueError, match="conversation_id is missing"):
        await JazzmineConversationStore(store, agent_id="a1").load("")


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

    assert [(one.role.value, one.original_content) for one in shown] == [
        ("system", "Be kind."),
        ("user", "Look:\n[binary]"),
        ("assistant", 'Wait.\nweather({"city":"X"})'),
        ("tool", '{"sky":"rain"}'),
        ("tool", "Again."),
        ("assistant", "Hm.\nRain."),
    ]
    assert shown[2].invoked_tools == ["weather"]
    again = await conversations.load("c1")
    assert again is not None
    assert again.messages == messages
