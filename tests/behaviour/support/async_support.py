"""Support for the suites of the async API: concurrent tasks, and a loop for sync functions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Generic, TypeVar

__all__ = ["Runner", "Started", "end", "gather", "pause", "settle", "take"]

T = TypeVar("T")


async def gather(*calls: Callable[[], Awaitable[T]]) -> list[T]:
    """Make all calls concurrently, and return their results in the order of the calls."""
    return await asyncio.gather(*(call() for call in calls))


async def settle(*calls: Callable[[], Awaitable[T]]) -> list[T | BaseException]:
    """Make all calls concurrently, and return the result or the error of each."""
    return await asyncio.gather(*(call() for call in calls), return_exceptions=True)


async def take(iterator: AsyncIterator[T], count: int) -> list[T]:
    """Return the next `count` items."""
    return [await iterator.__anext__() for _ in range(count)]


async def end(iterator: AsyncIterator[Any]) -> None:
    """Leave an iteration before its end."""
    closing: Any = iterator
    await closing.aclose()


async def pause(seconds: float) -> None:
    """Let the other tasks run for a while."""
    await asyncio.sleep(seconds)


class Started(Generic[T]):
    """A running call, in its own task."""

    def __init__(self, call: Callable[[], Awaitable[T]]) -> None:
        self._task = asyncio.ensure_future(call())

    def done(self) -> bool:
        """Return whether the call has ended."""
        return self._task.done()

    async def result(self) -> T:
        """Wait for the call, and return its result or raise its error."""
        return await self._task


class Runner:
    """Makes async calls from sync functions, all of them on one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def run(self, call: Awaitable[Any]) -> Any:
        """Return the result of a call."""
        return self._loop.run_until_complete(call)

    def collect(self, iterate: Callable[[], AsyncIterator[T]]) -> list[T]:
        """Return all items of the iterator that the call returns."""

        async def items() -> list[T]:
            return [item async for item in iterate()]

        return self._loop.run_until_complete(items())
