"""Run scenarios in worker processes, and compare two sides with each other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.frame.results import Pairs, Series
from benchmarks.frame.scenario import Figures, Scenario
from benchmarks.frame.workers import Worker


@dataclass(frozen=True)
class Side:
    """A scenario with its options."""

    scenario: type[Scenario]
    options: Mapping[str, object] = field(default_factory=dict)


class Lab:
    """Runs sides, each in a process of its own."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._folders = 0
        self._kept: dict[str, Path] = {}

    def folder(self) -> Path:
        """A new, empty folder on the disk that holds this checkout."""
        self._folders += 1
        folder = self._scratch / str(self._folders)
        folder.mkdir()
        return folder

    def keep(self, name: str, make: Callable[[Path], Path]) -> Path:
        """Return the folder that `make` has filled; it is called once for each name."""
        if name not in self._kept:
            self._kept[name] = make(self.folder())
        return self._kept[name]

    @contextmanager
    def worker(self, side: Side) -> Iterator[Worker]:
        """A new process with the side's scenario made and prepared."""
        with Worker(sys.executable) as worker:
            worker.make(side.scenario, self.folder(), side.options)
            yield worker
            worker.call("finish")

    def race(self, ours: Side, other: Side, *, rounds: int, fresh: bool = False) -> Series:
        """Measure both sides in turn, `rounds` times after a warm-up round.

        The two measurements of a pair follow each other, and the side that begins alternates, so
        that changes of the machine's speed affect both sides. With `fresh`, every measurement has
        its own process, and there is no warm-up round.
        """
        if fresh:
            one, two = lambda: self._once(ours), lambda: self._once(other)
            return alternate(one, two, rounds, warm_up=False)
        with self.worker(ours) as mine, self.worker(other) as theirs:
            return alternate(lambda: mine.call("measure"), lambda: theirs.call("measure"), rounds)

    def _once(self, side: Side) -> Figures:
        with self.worker(side) as worker:
            figures: Figures = worker.call("measure")
            return figures


def alternate(
    ours: Callable[[], Figures], other: Callable[[], Figures], rounds: int, warm_up: bool = True
) -> Series:
    """Measure two sides in turn, and return the pairs of all rounds after the warm-up."""
    found: list[tuple[Figures, Figures]] = []
    for turn in range(rounds + warm_up):
        if turn % 2:
            mine, theirs = ours(), other()
        else:
            theirs, mine = other(), ours()
        found.append((mine, theirs))
    return _collect(found[warm_up:])


def _collect(found: list[tuple[Figures, Figures]]) -> Series:
    names = dict.fromkeys(name for pair in found for name in (*pair[0], *pair[1]))
    return {
        name: Pairs(
            ours=[mine[name] for mine, _ in found if name in mine],
            other=[theirs[name] for _, theirs in found if name in theirs],
        )
        for name in names
    }
