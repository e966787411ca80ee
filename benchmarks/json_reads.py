"""What does it cost to read from a JSON store, and does that grow with what it holds?

A measurement is the mean of a batch of calls for random conversations or messages.
"""

from __future__ import annotations

import gc
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from benchmarks.frame.json_store import LARGE, LARGE_SPREAD, fill, large_file, open_store
from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.records import conversation_id, message_id, trace
from benchmarks.frame.results import Row, at_least_as_fast, within
from benchmarks.frame.scenario import Figures, Scenario
from jazzmine.core.message_store import MessageStore


class Opened(Scenario):
    """An open store, which is filled or has a copy of a given file."""

    store: MessageStore

    def __init__(
        self, folder: Path, stored: int, spread: int, batch: int, file: str | None = None
    ) -> None:
        super().__init__(folder)
        self.stored, self.spread, self.batch = stored, spread, batch
        self.chance = random.Random(stored)
        self._file = file

    async def prepare(self) -> None:
        path = self.folder / "messages.json"
        if self._file is None:
            await fill(path, self.stored, self.spread)
        else:
            shutil.copyfile(self._file, path)
        self.store = await open_store(path)
        gc.collect()

    async def finish(self) -> None:
        await self.store.close()


class Context(Opened):
    """`get_immediate_context(…, 20)` of random conversations."""

    async def measure(self) -> Figures:
        ids = [conversation_id(self.chance.randrange(self.spread)) for _ in range(self.batch)]
        started = perf_counter()
        for conversation in ids:
            await self.store.get_immediate_context(conversation, 20)
        return {"seconds": (perf_counter() - started) / self.batch}


class ById(Opened):
    """`get_message_by_id` of random messages."""

    async def measure(self) -> Figures:
        ids = [message_id(self.chance.randrange(self.stored)) for _ in range(self.batch)]
        started = perf_counter()
        for message in ids:
            await self.store.get_message_by_id(message)
        return {"seconds": (perf_counter() - started) / self.batch}


class TraceByMessage(Opened):
    """`get_turn_trace_by_message_id` of random messages, of which each has a trace."""

    async def prepare(self) -> None:
        await super().prepare()
        for number in range(self.stored):
            await self.store.store_turn_trace(trace(number, self.spread))

    async def measure(self) -> Figures:
        ids = [message_id(self.chance.randrange(self.stored)) for _ in range(self.batch)]
        started = perf_counter()
        for message in ids:
            await self.store.get_turn_trace_by_message_id(message)
        return {"seconds": (perf_counter() - started) / self.batch}


def answer(lab: Lab) -> Iterator[Row]:
    if not lab.self_check:
        yield _growth(lab)
    options: dict[str, object] = {"stored": 5_000, "spread": 20, "batch": 200}
    other = Side(Context, options, predecessor=True)
    found = lab.race(Side(Context, options), other, rounds=15)
    yield Row("get_immediate_context(20), 5,000 in 20", found["seconds"], at_least_as_fast(2))

    options["batch"] = 3_000
    other = Side(ById, options, predecessor=True)
    found = lab.race(Side(ById, options), other, rounds=25)
    yield Row("get_message_by_id, 5,000 in 20", found["seconds"], at_least_as_fast(1))

    options = {"stored": 200, "spread": 20, "batch": 1_000}
    other = Side(TraceByMessage, options, predecessor=True)
    found = lab.race(Side(TraceByMessage, options), other, rounds=25)
    yield Row("get_turn_trace_by_message_id, 200", found["seconds"], at_least_as_fast(1))


def _growth(lab: Lab) -> Row:
    small = {"stored": 1_000, "spread": 10, "batch": 500}
    large = {"stored": LARGE, "spread": LARGE_SPREAD, "batch": 500, "file": str(large_file(lab))}
    found = lab.race(Side(Context, large), Side(Context, small), rounds=15)
    label = f"get_immediate_context(20), {LARGE:,} in {LARGE_SPREAD:,}"
    return Row(label, found["seconds"], within(1.5), beside="itself, 1,000 in 10")
