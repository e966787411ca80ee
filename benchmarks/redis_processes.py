"""Do eight processes that update one conversation 50 times each lose an update, and how long does
it take from the end of one process's block to the beginning of another's?

The eight begin together, each with sync calls. A hand-over is the time from the last line of a
block in one process to the first line of the next block in another: it includes the save, the
message and the read of the other process.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.results import Bar, Pairs, Row, at_most, exactly
from benchmarks.frame.scenario import Scenario
from tests.servers.redis import Server

PROCESSES = 8
EACH = 50
CID = "c"

Span = tuple[int, int, float, float]
"""The revision that a block found, its process, and when it began and ended."""


class Updater(Scenario):
    """One of the processes."""

    def __init__(self, folder: Path, url: object, number: int, each: int) -> None:
        super().__init__(folder)
        self._url: Any = url
        self._number = number
        self._each = each

    def prepare(self) -> None:
        from jazzmine.sync.working_memory import WorkingMemoryStore

        self.store = WorkingMemoryStore.initialize(self._url)
        self.store.get_or_create(CID, "user", "agent")

    def update(self) -> list[Span]:
        spans = []
        for _ in range(self._each):
            with self.store.locked(CID) as memory:
                began = monotonic()
                memory.end_turn("Your refund is on its way.", "refund_done")
                spans.append((memory.revision, self._number, began, monotonic()))
        return spans

    def revision(self) -> int:
        memory: Any = self.store.get(CID)
        return int(memory.revision)

    def finish(self) -> None:
        self.store.close()


def answer(lab: Lab) -> Iterator[Row]:
    if lab.self_check:
        return
    with Server() as server:
        yield from rows_of(lab, server.url, EACH, at_most(5e-3))


def rows_of(lab: Lab, url: object, each: int, fast: Bar | None = None) -> Iterator[Row]:
    """Have the processes update a conversation of the store of a URL or configuration."""
    with ExitStack() as stack:
        options = [{"url": url, "number": number, "each": each} for number in range(PROCESSES)]
        updaters = [stack.enter_context(lab.worker(Side(Updater, one))) for one in options]
        before = updaters[0].call("revision")
        started = perf_counter()
        for updater in updaters:
            updater.send("update")
        spans = sorted(span for updater in updaters for span in updater.receive())
        wall = perf_counter() - started
        kept = updaters[0].call("revision") - before
    gaps = [
        began - ended
        for (_, one, _, ended), (_, other, began, _) in pairwise(spans)
        if one != other
    ]
    total = PROCESSES * each
    yield Row(f"{PROCESSES} processes, {each} updates each, wall time", Pairs([wall], []))
    yield Row("the same: kept", Pairs([kept], []), exactly(total), unit="")
    yield Row("the same: a hand-over, median", Pairs([statistics.median(gaps)], []), fast)
    yield Row("the same: hand-overs", Pairs([len(gaps)], []), unit="")
    yield Row("the same: most turns of a process / fewest", _fairness(spans), at_most(3), unit="")
    yield Row("the same: the longest hand-over", Pairs([max(gaps)], []))


def _fairness(spans: list[Span]) -> Pairs:
    """Compare the shares of the processes in the first half, when all of them want the lock."""
    shares = Counter(number for _, number, *_ in spans[: len(spans) // 2])
    return Pairs([max(shares.values()) / max(1, min(shares[n] for n in range(PROCESSES)))], [])
