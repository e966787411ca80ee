"""Traces of runs of LangGraph's graphs, recorded by callbacks in its own loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from jazzmine import ConfigurationError
from jazzmine.adapters.langgraph import JazzmineSaver
from jazzmine.core import MessageStore as AsyncMessageStore
from jazzmine.core.long_term_memory import LongTermMemoryStore as AsyncItems
from jazzmine.sync import MessageStore
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from tests.adapters.langgraph_agent import agent, question, settings
from tests.adapters.traces import check_recorded_turn, only_trace


@pytest.fixture
def saver(sync_store: MessageStore) -> Iterator[JazzmineSaver]:
    with LongTermMemoryStore.initialize("memory:") as items:
        yield JazzmineSaver(items, messages=sync_store, agent_id="a1")


@pytest.fixture
async def async_saver(store: AsyncMessageStore) -> AsyncIterator[JazzmineSaver]:
    async with await AsyncItems.initialize("memory:") as items:
        yield JazzmineSaver(items, messages=store, agent_id="a1")


async def test_a_run_of_coroutines_leaves_a_trace(
    async_saver: JazzmineSaver, store: AsyncMessageStore
) -> None:
    await agent(async_saver).ainvoke(question("Rain?"), settings())

    check_recorded_turn(await only_trace(store, "t1"))


def test_runs_of_several_threads_at_once_are_kept_apart(
    saver: JazzmineSaver, sync_store: MessageStore
) -> None:
    guide = agent(saver)
    names = [f"t{number}" for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: guide.invoke(question("Rain?"), settings(name)), names))

    for name in names:
        check_recorded_turn(asyncio.run(only_trace(sync_store, name)))


async def test_runs_of_one_thread_at_once_have_traces_of_their_own(
    async_saver: JazzmineSaver, store: AsyncMessageStore
) -> None:
    guide = agent(async_saver)
    runs = (guide.ainvoke(question(f"Rain {number}?"), settings()) for number in range(3))
    await asyncio.gather(*runs)

    found = await store.get_turn_traces_by_conversation_id("t1")
    assert [len(trace.llm_calls) for trace in found] == [2, 2, 2]
    assert [len(trace.tool_traces) for trace in found] == [1, 1, 1]


def test_what_a_tool_tells_the_model_in_a_command_is_its_result(
    saver: JazzmineSaver, sync_store: MessageStore
) -> None:
    answer = ToolMessage("to the desk", tool_call_id="call-1")

    @tool
    def handoff() -> Command[Any]:
        """Hand over to the desk."""
        return Command(update={"messages": [HumanMessage("Rain?"), answer]})

    call = {"name": "handoff", "args": {}, "id": "call-1", "type": "tool_call"}
    builder: StateGraph[Any] = StateGraph(MessagesState)
    builder.add_node("model", lambda _: {"messages": [AIMessage("", tool_calls=[call])]})
    builder.add_node("tools", ToolNode([handoff]))
    builder.add_edge(START, "model")
    builder.add_edge("model", "tools")
    graph = builder.compile(checkpointer=saver).with_config(callbacks=[saver.recorder()])
    graph.invoke(question("Rain?"), settings())

    (trace,) = sync_store.get_turn_traces_by_conversation_id("t1")
    assert [call.final_data for call in trace.tool_traces] == ["to the desk"]


def test_a_run_that_goes_on_and_fails_again_leaves_a_trace(
    saver: JazzmineSaver, sync_store: MessageStore
) -> None:
    def fail() -> None:
        raise OSError("no network")

    guide = agent(saver, on_question=fail)
    for given in (question("Rain?"), None):
        with pytest.raises(OSError, match="no network"):
            guide.invoke(given, settings())

    found = sync_store.get_turn_traces_by_conversation_id("t1")
    assert [(trace.user_id, len(trace.llm_calls)) for trace in found] == [("u1", 1)] * 2


def test_a_saver_without_a_message_store_records_nothing() -> None:
    with (
        LongTermMemoryStore.initialize("memory:") as items,
        pytest.raises(ConfigurationError, match="pass a message store"),
    ):
        JazzmineSaver(items).recorder()
