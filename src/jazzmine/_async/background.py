"""Background work of a store."""

from __future__ import annotations

from contextlib import suppress

from jazzmine._compat.concurrency import AsyncEvent as Event
from jazzmine._compat.concurrency import AsyncTask as Task
from jazzmine._compat.concurrency import AsyncWork as Work
from jazzmine.deadline import Deadline

__all__ = ["BackgroundTasks", "Periodic"]


class BackgroundTasks:
    """Does work that must end even if its call is cancelled."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []

    def start(self, work: Work[None]) -> Task:
        """Start work in the background; it raises nothing."""
        task = Task(work)
        # Each step is atomic: other threads start work, too.
        self._tasks.append(task)
        for done in [task for task in self._tasks if task.is_done]:
            with suppress(ValueError):
                self._tasks.remove(done)
        return task

    async def close(self, timeout: float) -> None:
        """Wait up to `timeout` s for the work in progress, then cancel it."""
        deadline = Deadline(timeout)
        for task in self._tasks.copy():
            await task.wait(deadline.remaining())
        for task in self._tasks.copy():
            await task.cancel()


class Periodic:
    """A context manager that repeats work every so many seconds while its block runs.

    The work returns whether to go on, and raises nothing. A long run that cannot be cancelled does
    not delay the end of the block: it must do no harm after it.
    """

    def __init__(self, every: float, work: Work[bool]) -> None:
        self._every = every
        self._work = work
        self._over = Event()

    async def __aenter__(self) -> None:
        self._task = Task(self._repeat)

    async def __aexit__(self, *error: object) -> None:
        self._over.set()
        await self._task.cancel()
        await self._task.wait(0.1)

    async def _repeat(self) -> None:
        while not await self._over.wait(self._every) and await self._work():
            pass
