"""A progress bar for long work, on a terminal alone."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter

from rich.progress import (
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from jazzmine.cli.output import errors
from jazzmine.cli.places import Batch

_EVERY = 200
_OBJECTS_BETWEEN_COLLECTIONS = 500_000


class _Count(ProgressColumn):
    """How many are done, and of how many if that is known."""

    def render(self, task: Task) -> Text:
        of_all = "" if task.total is None else f" of {task.total:,.0f}"
        return Text(f"{task.completed:,.0f}{of_all}")


class Counter:
    """Counts what is done; the numbers are drawn where somebody sees them."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)
        self._done = 0

    def begin(self, what: str) -> None:
        """Begin another part of the work."""
        self._done = 0
        self._progress.reset(self._task, description=what, total=None)

    def through(self, verb: str, stream: Iterable[Batch]) -> Iterator[Batch]:
        """Yield a stream of records, and count them."""
        for kind, batches in groupby(stream, key=itemgetter(0)):
            self.begin(f"{verb} {kind}")
            for batch in batches:
                yield batch
                self.step(len(batch[1]))

    def step(self, count: int = 1, left: int | None = None) -> None:
        """Count some more; `left` are those that are still to do, if that is known."""
        self._done += count
        if self._done % _EVERY < count:
            total = None if left is None else self._done + left
            self._progress.update(self._task, completed=self._done, total=total)


@contextmanager
def counting() -> Iterator[Counter]:
    """Show how far the work of a block is, on standard error if that is a terminal."""
    # Records hold no cycles, and looking for some takes as long as reading them.
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    console = errors()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        _Count(),
        TimeElapsedColumn(),
    )
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with progress:
        yield Counter(progress)
