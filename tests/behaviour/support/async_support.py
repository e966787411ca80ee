"""What the suites need of the async API: tasks at once, and a loop for plain code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Generic, TypeVar

__all__ = ["Runner", "Started", "gather", "pause", "settle", "take"]

T = TypeVar("T")


async def gather(*calls: Callable[[], Awaitable[T]]) -> list[T]:
    """Make all calls at once, and return their results in the order of the calls."""
    return await asyncio.gather(*(call() for call in calls))


async def settle(*calls: Callable[[], Awaitable[T]]) -> list[T | BaseException]:
    """Make all calls at once, and return the result or the error of each."""
    return await asyncio.gather(*(call() for call in calls), return_exceptions=True)


async def take(iterator: AsyncIterator[T], count: int) -> list[T]:
    """Return the next `count` items."""
    return [await iterator.__anext__() for _ in range(count)]


async def pause(seconds: float) -> None:
    """Let the others go on for a while."""
    await asyncio.sleep(seconds)


class Started(Generic[T]):
    """A call under way, in a task of its own."""

    def __init__(self, call: Callable[[], Awaitable[T]]) -> None:
        self._task = asyncio.ensure_future(call())

    def done(self) -> bool:
        """Whether it has come to its end."""
        return self._task.done()

    async def result(self) -> T:
        """Wait for its end, and return its result or raise its error."""
        return await self._task


class Runner:
    """Makes the calls of a plain function, all of them on one event loop of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def run(self, call: Awaitable[Any]) -> Any:
        """Return what the call returns."""
        return self._loop.run_until_complete(call)

    def collect(self, iterate: Callable[[], AsyncIterator[T]]) -> list[T]:
        """Return all items of the iterator that the call returns."""

        async def items() -> list[T]:
            return [item async for item in iterate()]

        return self._loop.run_until_complete(items())
