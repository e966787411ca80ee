"""What does it cost to store a message in a JSON file?

Every round opens a fresh copy of the same file, writes once to warm up, and then measures. The
library syncs file and folder before a call returns, which is its default; the predecessor does not.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import statistics
import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from benchmarks.frame.json_store import fill, open_store
from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.records import messages
from benchmarks.frame.results import Bar, Row, at_least_as_fast
from benchmarks.frame.scenario import Figures, Scenario

CONVERSATIONS = 20
BURST = 50


class Filled(Scenario):
    """A file with messages, which is copied for every round."""

    def __init__(self, folder: Path, stored: int, calls: int) -> None:
        super().__init__(folder)
        self.new = messages(stored, stored + calls + 1, CONVERSATIONS)
        self._stored = stored
        self._original = folder / "original.json"

    async def prepare(self) -> None:
        await fill(self._original, self._stored, CONVERSATIONS)

    def copy(self) -> Path:
        path = self.folder / "messages.json"
        shutil.copyfile(self._original, path)
        gc.collect()
        return path


class OneByOne(Filled):
    """`store_message` of new messages, one after another: the median call."""

    async def measure(self) -> Figures:
        store = await open_store(self.copy())
        await store.store_message(self.new[0])
        times = []
        for message in self.new[1:]:
            started = perf_counter()
            await store.store_message(message)
            times.append(perf_counter() - started)
        await store.close()
        return {"seconds": statistics.median(times)}


class OneByOneSync(Filled):
    """The same through the sync API."""

    def measure(self) -> Figures:
        from jazzmine.sync.message_store import MessageStore

        store = MessageStore.initialize({"storage": "json", "path": str(self.copy())})
        store.store_message(self.new[0])
        times = []
        for message in self.new[1:]:
            started = perf_counter()
            store.store_message(message)
            times.append(perf_counter() - started)
        store.close()
        return {"seconds": statistics.median(times)}


class AtOnce(Filled):
    """`store_message` called by many tasks at once: until the last has returned."""

    async def measure(self) -> Figures:
        store = await open_store(self.copy())
        await store.store_message(self.new[0])
        started = perf_counter()
        await asyncio.gather(*(store.store_message(message) for message in self.new[1:]))
        seconds = perf_counter() - started
        await store.close()
        return {"seconds": seconds}


class AtOnceSync(Filled):
    """The same from as many threads, which are started before the measurement.

    It has no limit, because waking so many threads takes longer than the writes.
    """

    def measure(self) -> Figures:
        from jazzmine.sync.message_store import MessageStore

        store = MessageStore.initialize({"storage": "json", "path": str(self.copy())})
        store.store_message(self.new[0])
        ready = threading.Barrier(len(self.new))

        def call(index: int) -> None:
            ready.wait()
            store.store_message(self.new[index])

        threads = [threading.Thread(target=call, args=(n,)) for n in range(1, len(self.new))]
        for thread in threads:
            thread.start()
        ready.wait()
        started = perf_counter()
        for thread in threads:
            thread.join()
        seconds = perf_counter() - started
        store.close()
        return {"seconds": seconds}


class BareReplace(Filled):
    """Only a durable replacement of a file of that size: the lower limit of every store."""

    async def measure(self) -> Figures:
        path = self.copy()
        content = path.read_bytes()
        _replace(path, content)
        times = []
        for _ in self.new[1:]:
            started = perf_counter()
            _replace(path, content)
            times.append(perf_counter() - started)
        return {"seconds": statistics.median(times)}


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def answer(lab: Lab) -> Iterator[Row]:
    yield from _one_by_one(lab, stored=500, calls=10, rounds=9, bar=at_least_as_fast(12))
    yield from _one_by_one(lab, stored=5_000, calls=5, rounds=5, bar=at_least_as_fast(20))
    yield from _at_once(lab)


def _one_by_one(lab: Lab, stored: int, calls: int, rounds: int, bar: Bar) -> Iterator[Row]:
    options = {"stored": stored, "calls": calls}
    label = f"store_message at {stored:,}"
    other = Side(OneByOne, options, predecessor=True)
    found = lab.race(Side(OneByOne, options), other, rounds=rounds)
    yield Row(label, found["seconds"], bar)
    if lab.self_check:
        return
    found = lab.race(Side(OneByOneSync, options), other, rounds=rounds)
    yield Row(f"{label}, sync API", found["seconds"], bar)
    found = lab.race(Side(OneByOne, options), Side(BareReplace, options), rounds=rounds)
    yield Row(f"{label}, for comparison", found["seconds"], beside="a bare durable replace")


def _at_once(lab: Lab) -> Iterator[Row]:
    options = {"stored": 500, "calls": BURST}
    other = Side(AtOnce, options, predecessor=True)
    found = lab.race(Side(AtOnce, options), other, rounds=5)
    yield Row(f"{BURST} tasks at once at 500", found["seconds"], at_least_as_fast(100))
    if lab.self_check:
        return
    found = lab.race(Side(AtOnceSync, options), other, rounds=5)
    label = f"{BURST} threads at once at 500, sync API"
    yield Row(label, found["seconds"], as_speed=True)
