"""What does a graph of LangGraph cost, beside its own PostgreSQL saver?

A turn appends a question and an answer to a thread of 20 messages; at turn 1,000 it is measured by
how much the tables of its saver grow on the disk. Both sides flush each commit, and use the
asynchronous API; LangGraph's AsyncPostgresSaver has a pool of psycopg.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.postgres import database
from benchmarks.frame.results import Row, at_least_as_fast, within
from benchmarks.frame.scenario import Figures, Scenario

CALLS = 30
TURNS = 10
LONG = 1_000
BESIDE = "AsyncPostgresSaver"
WORDS = [f"{random.Random(number).getrandbits(24):x}" for number in range(2_000)]

_SIZE = """
SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
WHERE relkind = 'r' AND relname LIKE %s AND relnamespace = 'public'::regnamespace
"""


async def _median(call: Callable[[], Awaitable[object]]) -> float:
    times = []
    for _ in range(CALLS):
        started = perf_counter()
        await call()
        times.append(perf_counter() - started)
    return statistics.median(times)


class Graph(Scenario):
    """A graph with one node, whose thread is kept."""

    def __init__(self, folder: Path, url: str, theirs: bool) -> None:
        super().__init__(folder)
        self._url, self._theirs = url, theirs
        self._stack = AsyncExitStack()
        self._settings: Any = {"configurable": {"thread_id": "t1"}}
        self._numbers = itertools.count()

    async def prepare(self) -> None:
        from langgraph.graph import END, START, MessagesState, StateGraph

        graph: Any = StateGraph(MessagesState)
        graph.add_node("answer", lambda _: {"messages": [("assistant", self._text())]})
        graph.add_edge(START, "answer")
        graph.add_edge("answer", END)
        self._graph = graph.compile(checkpointer=await self._saver())

    async def measure(self) -> Figures:
        numbers = itertools.count()

        async def turn() -> None:
            if next(numbers) % TURNS == 0:
                name = f"t{id(self)}-{perf_counter()}"
                self._settings = {"configurable": {"thread_id": name}}
            await self._ask()

        return {
            "turn": await _median(turn),
            "get": await _median(lambda: self._graph.aget_state(self._settings)),
        }

    async def finish(self) -> None:
        await self._stack.aclose()

    async def _ask(self) -> None:
        await self._graph.ainvoke({"messages": [("user", self._text())]}, self._settings)

    def _text(self) -> str:
        """Return a text that no other message has, and that is not compressed well."""
        words = random.Random(next(self._numbers)).choices(WORDS, k=50)
        return " ".join(words)

    async def _saver(self) -> Any:
        enter = self._stack.enter_async_context
        if self._theirs:
            from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
            from psycopg.rows import dict_row
            from psycopg_pool import AsyncConnectionPool

            kwargs = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
            pool: Any = AsyncConnectionPool(self._url, kwargs=kwargs, open=False)
            saver = AsyncPostgresSaver(await enter(pool))
            await saver.setup()
            return saver
        from jazzmine.adapters.langgraph import JazzmineSaver
        from jazzmine.core.long_term_memory import LongTermMemoryStore

        return JazzmineSaver(await enter(await LongTermMemoryStore.initialize(self._url)))


class LongThread(Graph):
    """The same graph after 999 turns, by what a turn adds to the tables."""

    async def prepare(self) -> None:
        await super().prepare()
        said = [(role, self._text()) for _ in range(LONG - 1) for role in ("user", "assistant")]
        await self._graph.aupdate_state(self._settings, {"messages": said}, as_node="answer")

    async def measure(self) -> Figures:
        before = self._size()
        for _ in range(TURNS):
            await self._ask()
        return {"bytes": (self._size() - before) / TURNS}

    def _size(self) -> int:
        import psycopg

        tables = "checkpoint%" if self._theirs else "memory_item%"
        with psycopg.connect(self._url) as connection:
            [row] = connection.execute(_SIZE, [tables]).fetchall()
        return int(row[0])


def answer(lab: Lab) -> Iterator[Row]:
    if lab.self_check:
        return
    for scenario, rounds in ((Graph, 7), (LongThread, 3)):
        with database(fsync=True) as dsn:
            found = lab.race(
                Side(scenario, {"url": dsn, "theirs": False}),
                Side(scenario, {"url": dsn, "theirs": True}),
                rounds=rounds,
            )
        if scenario is Graph:
            yield Row("turn", found["turn"], at_least_as_fast(2), beside=BESIDE)
            yield Row("get state", found["get"], at_least_as_fast(2), beside=BESIDE)
        else:
            label = f"a turn at turn {LONG:,}"
            yield Row(label, found["bytes"], within(0.5), beside=BESIDE, unit="B")
