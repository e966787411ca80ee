"""Traces of runs of Agent Framework, recorded by its own middleware in its own loop."""

from __future__ import annotations

import pytest
from agent_framework import AgentSession

from jazzmine.adapters.agent_framework import JazzmineHistoryProvider
from jazzmine.core import MessageStore
from tests.adapters.scripted_agent_framework import agent

SESSION = AgentSession(session_id="s1")


@pytest.fixture
def provider(store: MessageStore) -> JazzmineHistoryProvider:
    return JazzmineHistoryProvider(store, user_id="u1", agent_id="a1")


async def test_a_run_without_a_session_is_not_recorded(
    provider: JazzmineHistoryProvider, store: MessageStore
) -> None:
    guide, _ = agent(middleware=provider.recorder())
    assert (await guide.run("Rain?")).text == "It rains."
    assert await store.get_conversations_by_user_id("u1") == []
