"""Traces of runs of Strands Agents, recorded by its own hooks in its own loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from strands.multiagent import GraphBuilder
from strands.session.repository_session_manager import RepositorySessionManager

from jazzmine.adapters.strands import JazzmineSessionRepository
from jazzmine.sync import MessageStore
from tests.adapters.scripted_strands import agent
from tests.adapters.traces import only_trace


@pytest.fixture
def repository(sync_store: MessageStore) -> JazzmineSessionRepository:
    return JazzmineSessionRepository(sync_store, user_id="u1", agent_id="a1")


def recorded(repository: JazzmineSessionRepository, **more: Any) -> Any:
    return agent(repository, hooks=[repository.recorder("s1")], **more)[0]


def test_traces_of_a_graphs_agents_are_deleted_with_the_session(
    repository: JazzmineSessionRepository, sync_store: MessageStore
) -> None:
    # An agent of a graph has no session manager of its own.
    guide = recorded(repository, session_manager=None)
    builder = GraphBuilder()
    builder.add_node(guide, "guide")
    builder.set_max_node_executions(1)
    builder.set_session_manager(RepositorySessionManager("s1", repository))
    builder.build()("Rain?")
    assert asyncio.run(only_trace(sync_store, "s1/guide")).total_tokens == 30

    repository.delete_session("s1")

    assert sync_store.get_conversations() == []


def test_a_session_without_an_id_is_a_value_error(repository: JazzmineSessionRepository) -> None:
    with pytest.raises(ValueError, match="session_id is missing"):
        repository.recorder("")
