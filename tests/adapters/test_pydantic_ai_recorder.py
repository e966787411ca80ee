"""Traces of runs of Pydantic AI, recorded by a capability in its own loop."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict

from jazzmine.adapters.pydantic_ai import JazzmineConversationStore
from jazzmine.core import MessageStore
from tests.adapters.scripted_pydantic_ai import agent
from tests.adapters.traces import check_recorded_turn, only_trace


def recorded(conversations: JazzmineConversationStore, **more: Any) -> Any:
    return agent(capabilities=[conversations.recorder()], **more)


async def turn(
    conversations: JazzmineConversationStore, guide: Any, question: str = "Rain?", **save: Any
) -> None:
    found = await conversations.load("c1")
    conversation = found or Conversation(conversation_id="c1")
    await conversations.save(await guide.run(question, conversation=conversation), **save)


async def test_runs_that_are_saved_at_once_have_a_trace_each(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    guide, conversation = recorded(conversations), Conversation(conversation_id="c1")
    for question in ("Rain?", "And now?"):
        conversation = (await guide.run(question, conversation=conversation)).conversation
    await conversations.save(conversation)

    traces = await store.get_turn_traces_by_conversation_id("c1")
    assert [(trace.turn_number, len(trace.llm_calls)) for trace in traces] == [(1, 2), (2, 2)]
    assert traces[0].started_at_ms <= traces[1].started_at_ms


async def test_a_trace_has_the_user_of_the_scope(store: MessageStore) -> None:
    conversations = JazzmineConversationStore(store, agent_id="a1")
    await turn(conversations, recorded(conversations), scope="u1")

    check_recorded_turn(await only_trace(store, "c1"))


async def test_a_save_that_is_refused_at_once_leaves_the_trace_to_the_owner(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    guide = recorded(conversations)
    for scope in ("u1", "u1", "u2"):  # the second and the third have not loaded what is stored
        result = await guide.run("Rain?", conversation=Conversation(conversation_id="c1"))
        with suppress(ConversationConflict):
            await conversations.save(result, scope=scope)

    traces = await store.get_turn_traces_by_conversation_id("c1")
    assert [(trace.user_id, bool(trace.errors)) for trace in traces] == [
        ("u1", False),
        ("u1", True),
    ]


def refuse() -> None:
    raise OSError("no network")


async def test_a_run_of_an_unknown_user_that_fails_is_not_stored(store: MessageStore) -> None:
    conversations = JazzmineConversationStore(store, agent_id="a1")
    with pytest.raises(OSError, match="no network"):
        await turn(conversations, recorded(conversations, on_question=refuse), scope="u1")

    assert await store.get_conversation_by_id("c1") is None
