"""What has to go on beside or after a call in the awaitable world: tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

__all__ = ["Chores", "Repeating", "sleep"]

sleep = asyncio.sleep


class Chores:
    """Work that must be done whether or not its caller is still there."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, work: Callable[[], Awaitable[None]], *, wait: bool) -> None:
        """Have the work done; it raises nothing.

        Args:
            wait: whether the caller has the time to wait for it; one that is cancelled has not.
        """
        task = asyncio.ensure_future(_await(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if wait:
            await asyncio.shield(task)

    async def close(self, timeout: float) -> None:
        """Give what is under way `timeout` s to come to its end."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=timeout)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


class Repeating:
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


async def _await(work: Callable[[], Awaitable[None]]) -> None:
    await work()
