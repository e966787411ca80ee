"""Does a long conversation cost more than a short one, and how large does its state become?

Every turn makes each update there is, in a store of this process; the figure is the median update
of ten turns more, after 10,000 turns and after 100. A store on a server sends and receives the
state as JSON, so writing and reading JSON is measured too, and its size is compared with the
predecessor's.
"""

from __future__ import annotations

import gc
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.results import Bar, Pairs, Row, at_most, within
from benchmarks.frame.scenario import Figures, Scenario
from benchmarks.frame.turns import turn
from jazzmine.core.working_memory import InMemoryWorkingMemoryStore

SHORT, LONG = 100, 10_000
MEASURED = 10
LIMIT = 1.3
LARGEST = 64 * 1024


class Conversation(Scenario):
    """A conversation that is so many turns old; each measurement adds some."""

    def __init__(self, folder: Path, turns: int) -> None:
        super().__init__(folder)
        self._turns = turns

    async def prepare(self) -> None:
        self.store = InMemoryWorkingMemoryStore()
        await self.store.get_or_create("c", "user", "agent")
        self._next = 1
        while self._next <= self._turns:
            await self._take_turn()

    async def measure(self) -> Figures:
        gc.collect()
        times: list[float] = []
        for _ in range(MEASURED):
            times += await self._take_turn()
        memory = await self.store.get("c")
        assert memory is not None
        size = len(json.dumps(memory.to_dict(), ensure_ascii=False, separators=(",", ":")).encode())
        return {"update": statistics.median(times), "size": size}

    async def _take_turn(self) -> list[float]:
        times = []
        for name, arguments in turn(self._next):
            method = getattr(self.store, name)
            started = perf_counter()
            await method("c", *arguments)
            times.append(perf_counter() - started)
        self._next += 1
        return times


class AsJSON(Conversation):
    """The same conversation, written as JSON and read again."""

    async def measure(self) -> Figures:
        from jazzmine.records.memory_json import from_json, to_json

        memory = await self.store.get("c")
        assert memory is not None
        gc.collect()
        times = []
        for _ in range(50):
            started = perf_counter()
            from_json(to_json(memory))
            times.append(perf_counter() - started)
        return {"seconds": statistics.median(times), "size": len(to_json(memory))}


class ConversationSync(Scenario):
    """The same through the sync API."""

    def __init__(self, folder: Path, turns: int) -> None:
        super().__init__(folder)
        self._turns = turns

    def prepare(self) -> None:
        from jazzmine.sync.working_memory import InMemoryWorkingMemoryStore as Store

        self.store = Store()
        self.store.get_or_create("c", "user", "agent")
        self._next = 1
        while self._next <= self._turns:
            self._take_turn()

    def measure(self) -> Figures:
        gc.collect()
        times: list[float] = []
        for _ in range(MEASURED):
            times += self._take_turn()
        return {"update": statistics.median(times)}

    def _take_turn(self) -> list[float]:
        times = []
        for name, arguments in turn(self._next):
            method = getattr(self.store, name)
            started = perf_counter()
            method("c", *arguments)
            times.append(perf_counter() - started)
        self._next += 1
        return times


def answer(lab: Lab) -> Iterator[Row]:
    long, short = {"turns": LONG}, {"turns": SHORT}
    beside, bar = f"turn {SHORT:,}", within(LIMIT)
    found = lab.race(Side(Conversation, long), Side(Conversation, short), rounds=9)
    yield Row(f"an update at turn {LONG:,}", found["update"], bar, beside)
    if lab.self_check:
        return
    sizes = found["size"]
    found = lab.race(Side(ConversationSync, long), Side(ConversationSync, short), rounds=9)
    yield Row(f"an update at turn {LONG:,}, sync API", found["update"], bar, beside)
    found = lab.race(Side(AsJSON, long), Side(AsJSON, short), rounds=9)
    yield Row("its JSON, written and read", found["seconds"], bar, beside)
    yield _size(LONG, found["size"].ours, at_most(LARGEST))
    yield _size(SHORT, sizes.other)
    with lab.worker(Side(Conversation, long, predecessor=True)) as predecessor:
        theirs = predecessor.call("measure")["size"]
    yield Row("the predecessor's state then, bytes of JSON", Pairs([theirs], []), unit="")


def _size(turns: int, sizes: list[float], bar: Bar | None = None) -> Row:
    return Row(f"the state at turn {turns:,}, bytes of JSON", Pairs(sizes, []), bar, unit="")
