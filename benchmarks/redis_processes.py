"""Do eight processes that update one conversation 200 times each lose an update, and does each of
them get on?

The eight begin together and make no pause, each with sync calls: an update that finds that another
process has saved meanwhile is made again. The longest of the 1,600 updates may take 50 times as
long as the median.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.results import Pairs, Row, at_most, exactly
from benchmarks.frame.scenario import Scenario
from tests.servers.redis import Server

PROCESSES = 8
EACH = 200
CID = "c"


class Updater(Scenario):
    """One of the processes."""

    def __init__(self, folder: Path, url: object, each: int) -> None:
        super().__init__(folder)
        self._url: Any = url
        self._each = each

    def prepare(self) -> None:
        from jazzmine.sync.working_memory import WorkingMemoryStore

        self.store = WorkingMemoryStore.initialize(self._url)
        self.store.get_or_create(CID, "user", "agent")

    def update(self) -> list[float]:
        times = []
        for _ in range(self._each):
            started = perf_counter()
            self.store.end_turn(CID, "Your refund is on its way.", "refund_done")
            times.append(perf_counter() - started)
        return times

    def revision(self) -> int:
        memory: Any = self.store.get(CID)
        return int(memory.revision)

    def finish(self) -> None:
        self.store.close()


def answer(lab: Lab) -> Iterator[Row]:
    if lab.self_check:
        return
    with Server() as server:
        yield from rows_of(lab, server.url, EACH)


def rows_of(lab: Lab, url: object, each: int) -> Iterator[Row]:
    """Have the processes update a conversation of the store of a URL or configuration."""
    with ExitStack() as stack:
        side = Side(Updater, {"url": url, "each": each})
        updaters = [stack.enter_context(lab.worker(side)) for _ in range(PROCESSES)]
        before = updaters[0].call("revision")
        started = perf_counter()
        for updater in updaters:
            updater.send("update")
        times = [seconds for updater in updaters for seconds in updater.receive()]
        wall = perf_counter() - started
        kept = updaters[0].call("revision") - before
    median = statistics.median(times)
    yield Row(f"{PROCESSES} processes, {each} updates each, wall time", Pairs([wall], []))
    yield Row("the same: kept", Pairs([kept], []), exactly(PROCESSES * each), unit="")
    yield Row("the same: an update, median", Pairs([median], []))
    ratio = Pairs([max(times) / median], [])
    yield Row("the same: the longest update / the median", ratio, at_most(50), unit="")
