"""Traces of runs of LangGraph's graphs, recorded by callbacks in its own loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

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


def test_a_saver_without_a_message_store_records_nothing() -> None:
    with (
        LongTermMemoryStore.initialize("memory:") as items,
        pytest.raises(ConfigurationError, match="pass a message store"),
    ):
        JazzmineSaver(items).recorder()
