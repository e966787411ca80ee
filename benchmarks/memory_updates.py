"""What does an update of working memory in memory cost, and is any lost between threads or tasks?

A round is a conversation of a dozen turns, each with every update there is; the figure is the
median call. The predecessor has no blocking face, copies nothing and locks no update as a whole.
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
from benchmarks.frame.results import Pairs, Row, Series, at_most, exactly
from benchmarks.frame.scenario import Figures, Scenario
from benchmarks.frame.turns import tool_call, turn, turn_cache
from jazzmine.core.working_memory import InMemoryWorkingMemoryStore

TURNS = 12
CALLERS = 16
EACH = 50
LIMIT = 150e-6


class Conversations(Scenario):
    """Hands out a new conversation for each round, with the garbage of the last one collected."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._begun = 0

    def next_conversation(self) -> str:
        self._begun += 1
        gc.collect()
        return f"conversation {self._begun}"


class Updates(Conversations):
    """A conversation, update by update."""

    async def measure(self) -> Figures:
        store, cid = InMemoryWorkingMemoryStore(), self.next_conversation()
        await store.get_or_create(cid, "user", "agent")
        times: dict[str, list[float]] = defaultdict(list)
        for number in range(1, TURNS + 1):
            for name, arguments in turn(number):
                method = getattr(store, name)
                started = perf_counter()
                await method(cid, *arguments)
                times[name].append(perf_counter() - started)
        return {name: statistics.median(found) for name, found in times.items()}


class UpdatesSync(Conversations):
    """The same through the blocking face."""

    def measure(self) -> Figures:
        from jazzmine.sync import working_memory as face

        store, cid = face.InMemoryWorkingMemoryStore(), self.next_conversation()
        store.get_or_create(cid, "user", "agent")
        times: dict[str, list[float]] = defaultdict(list)
        for number in range(1, TURNS + 1):
            for name, arguments in turn(number):
                method = getattr(store, name)
                started = perf_counter()
                method(cid, *arguments)
                times[name].append(perf_counter() - started)
        return {name: statistics.median(found) for name, found in times.items()}


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
        from jazzmine.sync import working_memory as face

        store, cid = face.InMemoryWorkingMemoryStore(), self.next_conversation()
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
    other = Side(Updates, predecessor=True)
    yield from _updates(lab.race(Side(Updates), other, rounds=9), "")
    if not lab.self_check:
        yield from _updates(lab.race(Side(UpdatesSync), other, rounds=9), ", sync face")

    other = Side(Contended, predecessor=True)
    yield from _contended(lab.race(Side(Contended), other, rounds=3), "tasks")
    if not lab.self_check:
        found = lab.race(Side(ContendedSync), other, rounds=3)
        yield from _contended(found, "threads, sync face")


def _updates(found: Series, face: str) -> Iterator[Row]:
    for name, pairs in found.items():
        yield Row(f"{name}{face}", pairs, at_most(LIMIT))


def _contended(found: Series, callers: str) -> Iterator[Row]:
    label = f"{CALLERS} {callers}, {EACH} record_tool_call each"
    beside = "predecessor" if callers == "tasks" else "its tasks"
    yield Row(f"{label}: wall time", found["seconds"], beside=beside)
    kept = Pairs(found["kept"].ours, [])
    yield Row(f"{label}: kept", kept, exactly(CALLERS * EACH), unit="")
