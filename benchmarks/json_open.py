"""How long does a JSON store of 100,000 messages take to open, and how much memory does it hold?

Every measurement is made in a process of its own, which has imported everything before. The memory
is the growth of the process, as a multiple of the file's size: after opening, and after every
message and the context of every conversation were read once and dropped. (The predecessor reads
nothing, because it searches all messages for each context.)
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time

from benchmarks.frame import resident
from benchmarks.frame.json_store import LARGE, LARGE_SPREAD, large_file, open_store
from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.records import conversation_id, message_id
from benchmarks.frame.results import Pairs, Row, at_most
from benchmarks.frame.scenario import Figures, Scenario
from jazzmine.core.message_store import MessageStore


class Opening(Scenario):
    """Opens a copy of the file once, and optionally reads all of it."""

    def __init__(self, folder: Path, file: str, read_all: bool) -> None:
        super().__init__(folder)
        self._file, self._read_all = Path(file), read_all
        self._path = folder / "messages.json"

    async def prepare(self) -> None:
        """Copy the file, and open another, so that nothing is imported during the measurement."""
        shutil.copyfile(self._file, self._path)
        store = await open_store(self.folder / "empty.json")
        await store.close()

    async def measure(self) -> Figures:
        before = resident.held()
        resident.forget_peak()
        started, cpu = perf_counter(), process_time()
        store = await open_store(self._path)
        figures: Figures = {
            "seconds": perf_counter() - started,
            "cpu": process_time() - cpu,
            "peak": resident.peak() - before,
            "held": resident.held() - before,
        }
        if self._read_all:
            await _read(store)
            figures["read"] = resident.held() - before
        await store.close()
        return figures


async def _read(store: MessageStore) -> None:
    for number in range(LARGE):
        await store.get_message_by_id(message_id(number))
    for number in range(LARGE_SPREAD):
        await store.get_immediate_context(conversation_id(number), 20)


def answer(lab: Lab) -> Iterator[Row]:
    if not resident.STATUS.exists():
        raise NotImplementedError("memory is read from /proc, which this system lacks")
    path = large_file(lab)
    ours = Side(Opening, {"file": str(path), "read_all": not lab.self_check})
    other = Side(Opening, {"file": str(path), "read_all": False}, predecessor=True)
    found = lab.race(ours, other, rounds=3, fresh=True)
    size = os.path.getsize(path)
    yield Row("open, wall time", found["seconds"], at_most(2))
    yield Row("open, CPU time", found["cpu"])
    yield Row("size of the file", Pairs([size], []), unit="B")
    yield Row("held after opening", found["held"], at_most(3 * size), unit="B")
    yield Row("peak while opening", found["peak"], unit="B")
    if "read" in found:
        yield Row("held after reading all of it", found["read"], at_most(3 * size), unit="B")
