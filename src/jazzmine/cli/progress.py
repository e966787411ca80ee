"""A progress bar for long work, on a terminal alone."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from jazzmine.cli.output import console
from jazzmine.cli.places import Batch

_OBJECTS_BETWEEN_COLLECTIONS = 500_000


class Counter:
    """Counts what is done; the numbers are drawn where somebody sees them."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)

    def begin(self, what: str) -> None:
        """Begin another part of the work."""
        self._progress.reset(self._task, description=what, total=None)

    def through(self, verb: str, stream: Iterable[Batch]) -> Iterator[Batch]:
        """Yield a stream of records, and count them."""
        for kind, batches in groupby(stream, key=itemgetter(0)):
            self.begin(f"{verb} {kind}")
            for batch in batches:
                yield batch
                self.step(len(batch[1]))

    def step(self, count: int = 1) -> None:
        """Count some more."""
        self._progress.update(self._task, advance=count)


@contextmanager
def counting() -> Iterator[Counter]:
    """Show how far the work of a block is, on standard error if that is a terminal."""
    # Records hold no cycles, and looking for some takes as long as reading them.
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    errors = console(stderr=True)
    done = TextColumn("{task.description} {task.completed:,.0f}")
    columns = (SpinnerColumn(), done, TimeElapsedColumn())
    progress = Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal)
    with progress:
        yield Counter(progress)
