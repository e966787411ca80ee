"""What has to go on beside or after a call in the awaitable world: tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

__all__ = ["BackgroundTask", "BackgroundTasks", "Event", "Periodic", "sleep"]

sleep = asyncio.sleep


class Event(asyncio.Event):
    """An event that is waited for with a time-out."""

    async def wait(self, timeout: float) -> None:  # type: ignore[override]
        """Wait until the event is set, `timeout` s at most."""
        if not self.is_set():
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(super().wait(), timeout)


class BackgroundTask:
    """Work beside the calls, one run at a time.

    Args:
        work: what is run; it raises nothing.
    """

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start a run, unless one is under way."""
        if self._task is None or self._task.done():
            self._task = _start(self._work)

    async def close(self, timeout: float) -> None:
        """Wait for the run that is under way, `timeout` s at most."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task], timeout=timeout)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


class BackgroundTasks:
    """Work that must be done whether or not its caller is still there."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, work: Callable[[], Awaitable[None]], *, wait: bool) -> None:
        """Have the work done; it raises nothing.

        Args:
            wait: whether the caller has the time to wait for it; one that is cancelled has not.
        """
        task = self.start(work)
        if wait:
            await asyncio.shield(task)

    def start(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Have the work done beside the calls; it raises nothing."""
        task = _start(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self, timeout: float) -> None:
        """Give what is under way `timeout` s to come to its end."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=timeout)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


class Periodic:
    """A context manager that does some work time and again for as long as its block runs.

    Args:
        every: the time, in s, before the first time and between two.
        work: returns whether to go on; it raises nothing.
    """

    def __init__(self, every: float, work: Callable[[], Awaitable[bool]]) -> None:
        self._every = every
        self._work = work
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        # Most blocks are over before the first time: those need no task.
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._every, self._start)

    async def __aexit__(self, *error: object) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _start(self) -> None:
        self._task = asyncio.ensure_future(self._repeat())

    async def _repeat(self) -> None:
        going_on = True
        while going_on:
            going_on = await self._work()
            await asyncio.sleep(self._every)


def _start(work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
    task = asyncio.ensure_future(_await(work))
    # A program may end before it: that is nothing to be reported.
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    return task


async def _await(work: Callable[[], Awaitable[None]]) -> None:
    await work()
