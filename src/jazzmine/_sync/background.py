"""Background work of a store."""

from __future__ import annotations

from contextlib import suppress

from jazzmine._compat.concurrency import SyncTask as Task
from jazzmine._compat.concurrency import SyncWork as Work
from jazzmine.deadline import Deadline


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

    def close(self, timeout: float) -> None:
        """Wait up to `timeout` s for the work in progress, then cancel it."""
        deadline = Deadline(timeout)
        for task in self._tasks.copy():
            task.wait(deadline.remaining())
        for task in self._tasks.copy():
            task.cancel()
