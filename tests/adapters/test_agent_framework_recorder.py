"""Traces of runs of Agent Framework, recorded by its own middleware in its own loop."""

from __future__ import annotations

from typing import Any

import pytest
from agent_framework import Agent, AgentSession

from jazzmine.adapters.agent_framework import JazzmineHistoryProvider
from jazzmine.core import MessageStore
from tests.adapters.agent_framework_program import agent
from tests.adapters.traces import check_recorded_turn, only_trace

SESSION = AgentSession(session_id="s1")


@pytest.fixture
def provider(store: MessageStore) -> JazzmineHistoryProvider:
    return JazzmineHistoryProvider(store, user_id="u1", agent_id="a1")


def recorded(provider: JazzmineHistoryProvider, **more: Any) -> Agent:
    return agent(provider, middleware=provider.recorder(), **more)[0]


async def test_a_run_leaves_a_trace_beside_its_messages(
    provider: JazzmineHistoryProvider, store: MessageStore
) -> None:
    guide = recorded(provider)
    await guide.run("Rain?", session=SESSION)

    trace = await only_trace(store, "s1/jazzmine")
    check_recorded_turn(trace)
    assert trace.tool_traces[0].call_id == "call-1"
    conversation = await store.get_conversation_by_id("s1/jazzmine")
    assert conversation is not None
    assert conversation.title == "Rain?"
    await guide.run("And now?", session=SESSION)
    traces = await store.get_turn_traces_by_conversation_id("s1/jazzmine")
    assert [trace.turn_number for trace in traces] == [1, 2]


async def test_a_streamed_run_leaves_a_trace(
    provider: JazzmineHistoryProvider, store: MessageStore
) -> None:
    stream = recorded(provider).run("Rain?", session=SESSION, stream=True)
    async for _ in stream:
        pass
    await stream.get_final_response()

    check_recorded_turn(await only_trace(store, "s1/jazzmine"))


async def test_a_run_without_a_session_is_not_recorded(
    provider: JazzmineHistoryProvider, store: MessageStore
) -> None:
    guide, _ = agent(middleware=provider.recorder())
    assert (await guide.run("Rain?")).text == "It rains."
    assert await store.get_conversations_by_user_id("u1") == []
