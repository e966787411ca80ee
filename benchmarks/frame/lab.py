"""Measure two sides of a comparison in turn."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from time import perf_counter

from benchmarks.frame.results import Pairs


class Lab:
    """Has folders for what is measured.

    Args:
        scratch: a folder on the disk that holds this checkout.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._folders = 0

    def folder(self) -> Path:
        """A new, empty folder."""
        self._folders += 1
        folder = self._scratch / str(self._folders)
        folder.mkdir()
        return folder


def race(ours: Callable[[], float], other: Callable[[], float], rounds: int) -> Pairs:
    """Measure both sides `rounds` times after a warm-up round.

    The two measurements of a pair follow each other, and the side that begins alternates, so that
    changes of the machine's speed affect both sides.
    """
    pairs = []
    for turn in range(rounds + 1):
        if turn % 2:
            mine, theirs = ours(), other()
        else:
            theirs, mine = other(), ours()
        pairs.append((mine, theirs))
    return Pairs([mine for mine, _ in pairs[1:]], [theirs for _, theirs in pairs[1:]])


def median_time(calls: Iterable[Callable[[], object]]) -> float:
    """The median time of calls, in s."""
    times = []
    for call in calls:
        started = perf_counter()
        call()
        times.append(perf_counter() - started)
    return statistics.median(times)


async def median_wait(calls: Iterable[Callable[[], Awaitable[object]]]) -> float:
    """The median time of calls that are awaited, in s."""
    times = []
    for call in calls:
        started = perf_counter()
        await call()
        times.append(perf_counter() - started)
    return statistics.median(times)
