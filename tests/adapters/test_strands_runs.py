"""Agents of Strands with a repository: the framework's own loop, and several processes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.multiagent import GraphBuilder
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.exceptions import SessionException

from jazzmine.adapters.strands import JazzmineSessionRepository
from jazzmine.sync import MessageStore
from tests.adapters.scripted_strands import ScriptedModel, agent
from tests.adapters.traces import only_trace


def test_an_agent_remembers_its_turns(repository: JazzmineSessionRepository) -> None:
    guide, model = agent(repository, state={"visits": 1})
    guide("Rain?")
    guide.state.set("visits", 2)
    guide("And now?")

    again, other_model = agent(repository)
    again("Still?")

    assert again.state.get("visits") == 2
    assert len(model.inputs[-1]) == 7
    assert [one["role"] for one in other_model.inputs[0]] == ["user", "assistant"] * 4 + ["user"]
    assert len(repository.list_messages("s1", "guide")) == 12


def test_a_window_is_restored(repository: JazzmineSessionRepository) -> None:
    window = SlidingWindowConversationManager(window_size=4)
    guide, _ = agent(repository, conversation_manager=window)
    for _ in range(3):
        guide("Rain?")

    again, _ = agent(repository, conversation_manager=SlidingWindowConversationManager(4))

    assert [one["role"] for one in again.messages] == [one["role"] for one in guide.messages]
    assert again.messages[-1]["content"] == guide.messages[-1]["content"]


@pytest.mark.parametrize(("index", "title"), [(0, "[hidden]"), (-1, "Rain?")])
def test_a_redaction_reaches_the_title_and_the_trace(
    repository: JazzmineSessionRepository, sync_store: MessageStore, index: int, title: str
) -> None:
    guide, model = agent(repository, hooks=[repository.recorder("s1")])
    manager: Any = guide._session_manager

    def redact() -> None:
        message: Any = {**guide.messages[-1], "content": [{"text": "[hidden]"}]}
        manager.redact_latest_message(message, guide)

    # At the first question, or after the run.
    model.on_question = redact if index == 0 else lambda: None
    guide("Rain?")
    redact()

    assert agent(repository)[0].messages[index]["content"] == [{"text": "[hidden]"}]
    conversation = sync_store.get_conversation_by_id("s1/guide")
    assert conversation is not None
    assert conversation.title == title
    (tool,) = asyncio.run(only_trace(sync_store, "s1/guide")).tool_traces
    assert (tool.tool_name, tool.arguments, tool.final_data) == ("weather", None, None)


def test_a_graph_of_agents_goes_on(repository: JazzmineSessionRepository) -> None:
    def graph() -> Any:
        builder = GraphBuilder()
        builder.add_node(Agent(model=ScriptedModel(), callback_handler=None, name="n"), "n")
        builder.set_graph_id("g1")
        builder.set_max_node_executions(3)
        builder.set_session_manager(RepositorySessionManager("s1", repository))
        return builder.build()

    graph()
    stored = repository.read_multi_agent("s1", "g1")
    assert stored is not None
    assert stored["id"] == "g1"
    again = graph()
    again.task = "go"
    repository.update_multi_agent("s1", again)
    assert repository.read_multi_agent("s1", "g1") == again.serialize_state()

    again.id = "g2"
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_multi_agent("s1", again)


# Several processes


def test_traces_of_a_graphs_agents_are_deleted_with_the_session(
    repository: JazzmineSessionRepository, sync_store: MessageStore
) -> None:
    # An agent of a graph has no session manager of its own.
    guide, _ = agent(repository, hooks=[repository.recorder("s1")], session_manager=None)
    builder = GraphBuilder()
    builder.add_node(guide, "guide")
    builder.set_max_node_executions(1)
    builder.set_session_manager(RepositorySessionManager("s1", repository))
    builder.build()("Rain?")
    assert asyncio.run(only_trace(sync_store, "s1/guide")).total_tokens == 30

    repository.delete_session("s1")

    assert sync_store.get_conversations() == []


def test_runs_at_once_of_one_agent_have_a_trace_each(
    repository: JazzmineSessionRepository, sync_store: MessageStore
) -> None:
    guides, both_asked = [], Barrier(2)
    for _ in range(2):
        guide, model = agent(repository, hooks=[repository.recorder("s1")])
        model.on_question = lambda: both_asked.wait(60)
        guides.append(guide)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda guide: guide("Rain?"), guides))

    traces = sync_store.get_turn_traces_by_conversation_id("s1/guide")
    assert [(trace.turn_number, trace.total_tokens) for trace in traces] == [(1, 30), (2, 30)]
