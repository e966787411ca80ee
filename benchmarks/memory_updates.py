"""What does an update of working memory in memory cost, and is any lost between threads or tasks?

A round is a conversation of a dozen turns, each with every update there is; the figure is the
median call. The cost of an update grows with the size of the working memory, which is about 10 KB
of JSON at the end; so the slowest kind of update is also measured in first turns only, at 3 to 7
KB. The predecessor has no sync API, makes no copies, and holds no lock for a complete update.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.results import Pairs, Row, at_most, exactly
from benchmarks.frame.scenario import Figures, Scenario
from benchmarks.frame.turns import Step, tool_call, turn, turn_cache
from jazzmine.core.working_memory import InMemoryWorkingMemoryStore

TURNS = 12
CALLERS = 16
EACH = 50
LIMIT = 60e-6


class Conversations(Scenario):
    """Provides new conversations; it has their number in a round, and their length."""

    def __init__(self, folder: Path, conversations: int = 1, turns: int = TURNS) -> None:
        super().__init__(folder)
        self._conversations, self._turns = conversations, turns
        self._begun = 0

    def next_conversation(self) -> str:
        self._begun += 1
        return f"conversation {self._begun}"

    def steps(self) -> Iterator[tuple[str, Step]]:
        """Every update of a round, with its conversation's id; a conversation comes first."""
        gc.collect()
        for _ in range(self._conversations):
            cid = self.next_conversation()
            yield cid, ("get_or_create", ("user", "agent"))
            for number in range(1, self._turns + 1):
                for step in turn(number):
                    yield cid, step


class Updates(Conversations):
    """Conversations, update by update."""

    async def measure(self) -> Figures:
        store = InMemoryWorkingMemoryStore()
        times: dict[str, list[float]] = defaultdict(list)
        for cid, (name, arguments) in self.steps():
            method = getattr(store, name)
            started = perf_counter()
            await method(cid, *arguments)
            times[name].append(perf_counter() - started)
        return _medians(times)


class UpdatesSync(Conversations):
    """The same through the sync API."""

    def measure(self) -> Figures:
        from jazzmine.sync import working_memory as api

        store = api.InMemoryWorkingMemoryStore()
        times: dict[str, list[float]] = defaultdict(list)
        for cid, (name, arguments) in self.steps():
            method = getattr(store, name)
            started = perf_counter()
            method(cid, *arguments)
            times[name].append(perf_counter() - started)
        return _medians(times)


def _medians(times: dict[str, list[float]]) -> Figures:
    found = {name: statistics.median(calls) for name, calls in times.items()}
    del found["get_or_create"]
    return found | {"slowest": max(found.values())}


class Contended(Conversations):
    """Many tasks record tool calls in one conversation: the seconds, and the calls kept."""

    async def measure(self) -> Figures:
        store, cid = InMemoryWorkingMemoryStore(), self.next_conversation()
        await store.get_or_create(cid, "user", "agent")
        await store.begin_turn(cid, turn_cache(1))

        async def record() -> None:
            for _ in range(EACH):
                await store.record_tool_call(cid, tool_call(1))

        started = perf_counter()
        await asyncio.gather(*(record() for _ in range(CALLERS)))
        seconds = perf_counter() - started
        memory = await store.get(cid)
        assert memory is not None
        assert memory.current_turn is not None
        return {"seconds": seconds, "kept": len(memory.current_turn.tool_calls)}


class ContendedSync(Conversations):
    """The same from as many threads."""

    def measure(self) -> Figures:
        from jazzmine.sync import working_memory as api

        store, cid = api.InMemoryWorkingMemoryStore(), self.next_conversation()
        store.get_or_create(cid, "user", "agent")
        store.begin_turn(cid, turn_cache(1))

        def record() -> None:
            for _ in range(EACH):
                store.record_tool_call(cid, tool_call(1))

        threads = [threading.Thread(target=record) for _ in range(CALLERS)]
        started = perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = perf_counter() - started
        memory = store.get(cid)
        assert memory is not None
        assert memory.current_turn is not None
        return {"seconds": seconds, "kept": len(memory.current_turn.tool_calls)}


def answer(lab: Lab) -> Iterator[Row]:
    apis = {"": Updates} if lab.self_check else {"": Updates, ", sync API": UpdatesSync}
    for api, scenario in apis.items():
        yield from _updates(lab, api, scenario)
    yield from _contended(lab, "16 tasks", Contended)
    if not lab.self_check:
        yield from _contended(lab, "16 threads, sync API", ContendedSync)


def _updates(lab: Lab, api: str, scenario: type[Conversations]) -> Iterator[Row]:
    other = Side(Updates, predecessor=True)
    found = lab.race(Side(scenario), other, rounds=9)
    del found["slowest"]
    for name, pairs in found.items():
        yield Row(f"{name}{api}", pairs, at_most(LIMIT))
    first = {"conversations": TURNS, "turns": 1}
    other = Side(Updates, first, predecessor=True)
    found = lab.race(Side(scenario, first), other, rounds=9)
    yield Row(f"the slowest of these in first turns{api}", found["slowest"], at_most(LIMIT))


def _contended(lab: Lab, callers: str, scenario: type[Conversations]) -> Iterator[Row]:
    found = lab.race(Side(scenario), Side(Contended, predecessor=True), rounds=1)
    label = f"{callers}, {EACH} record_tool_call each"
    yield Row(f"{label}: wall time", found["seconds"])
    kept = Pairs(found["kept"].ours, [])
    yield Row(f"{label}: kept", kept, exactly(CALLERS * EACH), unit="")
