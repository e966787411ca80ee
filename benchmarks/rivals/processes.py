"""Worker processes, each with the store of a library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.frame.environments import python_of
from benchmarks.rivals.rivals import Rival
from benchmarks.rivals.workers import Worker


@contextmanager
def processes(
    rival: Rival, count: int, *, own_clock: bool = False, python: Path | None = None
) -> Iterator[list[Worker]]:
    """Processes in the library's environment, or of another interpreter."""
    with ExitStack() as stack:
        workers = [Worker(python or python_of(rival.environment.folder)) for _ in range(count)]
        for worker in workers:
            stack.enter_context(worker)
            worker.make(rival.adapter, Path("."), {"own_clock": own_clock})
        yield workers


@contextmanager
def opened(workers: Sequence[Worker], address: str) -> Iterator[None]:
    """Open the stores of some processes; the first creates the tables before the others open."""
    first, *others = workers
    first.call("open", place=address)
    for worker in others:
        worker.send("open", place=address)
    for worker in others:
        worker.receive()
    yield
    for worker in workers:
        worker.call("close")
