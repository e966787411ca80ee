"""PyMongo's async classes, and what waits for another call, under names that both APIs share."""

from __future__ import annotations

import asyncio
from asyncio import sleep
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeAlias, TypeVar

from pymongo import AsyncMongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection

from jazzmine.deadline import Deadline

__all__ = [
    "BackgroundTask",
    "Client",
    "Collection",
    "Condition",
    "MicroBatcher",
    "Session",
    "Work",
    "sleep",
]

T = TypeVar("T")

Client: TypeAlias = AsyncMongoClient[dict[str, Any]]
Collection: TypeAlias = AsyncCollection[dict[str, Any]]
Session: TypeAlias = AsyncClientSession
Work: TypeAlias = Callable[..., Awaitable[T]]


class Condition(asyncio.Condition):
    """A condition that is waited for until a deadline."""

    async def wait_until(self, deadline: Deadline) -> bool:
        """Wait for a notification; return False if none came before the deadline."""
        try:
            await asyncio.wait_for(self.wait(), deadline.remaining())
        except asyncio.TimeoutError:
            return False
        return True


class BackgroundTask:
    """Work that goes on after the call that caused it; it raises nothing, and runs once at a time.

    It begins a moment later: where the program is ending, the loop is closed by then.
    """

    DELAY = 0.05

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Begin, unless it is running."""
        if self._timer is None and (self._task is None or self._task.done()):
            self._timer = asyncio.get_running_loop().call_later(self.DELAY, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._task = asyncio.ensure_future(self._work())

    async def close(self) -> None:
        """End it."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])


class _Waiting(Generic[T]):
    """An item, and the future of the caller that waits for it."""

    __slots__ = ("deadline", "item", "result", "task")

    def __init__(self, item: T, deadline: Deadline) -> None:
        self.item = item
        self.deadline = deadline
        self.result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None

    def end(self, error: Exception | None) -> None:
        if self.result.done():
            return
        if error is None:
            self.result.set_result(None)
        else:
            self.result.set_exception(error)


class MicroBatcher(Generic[T]):
    """Writes an item at once, or, while `max_concurrency` writes are running, in the next batch.

    Each item keeps its own deadline. If a batch fails, its items are written again one by one,
    so that an error reaches only the caller whose item caused it. If a caller is cancelled, the
    batch that holds its item is given up, and the other items are written in another one.

    Args:
        write: writes items until a deadline, any of them again if need be.
        max_concurrency: how many calls of `write` may run.
    """

    MAX_ITEMS = 200

    def __init__(
        self, write: Callable[[list[T], Deadline], Awaitable[None]], max_concurrency: int
    ) -> None:
        self._write = write
        self._free = max_concurrency
        self._queue: deque[_Waiting[T]] = deque()

    async def run(self, item: T, deadline: Deadline) -> None:
        """Write an item, and raise what writing it raised."""
        if self._free:
            self._free -= 1
            try:
                return await self._write([item], deadline)
            finally:
                self._release()
        waiting = _Waiting(item, deadline)
        self._queue.append(waiting)
        try:
            await waiting.result
        except asyncio.CancelledError:
            if waiting.task is not None and not waiting.task.done():
                # The caller may go on only when the client knows that the write is given up.
                waiting.task.cancel()
                await asyncio.wait([waiting.task])
            raise

    def _release(self) -> None:
        self._free += 1
        batch: list[_Waiting[T]] = []
        while self._queue and len(batch) < self.MAX_ITEMS:
            waiting = self._queue.popleft()
            if not waiting.result.done():
                batch.append(waiting)
        if batch:
            self._free -= 1
            task = asyncio.get_running_loop().create_task(self._write_batch(batch))
            for waiting in batch:
                waiting.task = task

    async def _write_batch(self, batch: list[_Waiting[T]]) -> None:
        try:
            await self._write(
                [waiting.item for waiting in batch], min(waiting.deadline for waiting in batch)
            )
        except asyncio.CancelledError:
            self._queue.extendleft(reversed(batch))
        except Exception as error:
            await self._write_one_by_one(batch, error)
        else:
            for waiting in batch:
                waiting.end(None)
        finally:
            self._release()

    async def _write_one_by_one(self, batch: list[_Waiting[T]], error: Exception) -> None:
        for waiting in batch:
            if waiting.result.done():
                continue
            try:
                if len(batch) == 1:
                    raise error
                await self._write([waiting.item], waiting.deadline)
                waiting.end(None)
            except asyncio.CancelledError:
                self._queue.extendleft(reversed(batch))
                return
            except Exception as own_error:
                waiting.end(own_error)
