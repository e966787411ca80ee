"""Calls that wait for their turn are sent together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from jazzmine.deadline import Deadline

__all__ = ["MicroBatcher", "RunBatch"]

T = TypeVar("T")
RunBatch = Callable[[Sequence[T], Deadline], Awaitable[None]]


class _Call(Generic[T]):
    """A call that waits.

    Attributes:
        is_alone: whether it is to be sent alone, since it was part of a batch that failed.
    """

    def __init__(self, item: T, deadline: Deadline) -> None:
        self.item = item
        self.deadline = deadline
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_alone = False

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class MicroBatcher(Generic[T]):
    """Runs each item at once; items for which there is no room yet are sent as one batch.

    Each item keeps its own deadline. When a batch fails, its items are sent again one by one.

    Args:
        run_batch: sends some items, all or none, until a deadline.
        max_concurrency: how many calls of it there are at a time.
        timeout: how long each item has, in s.
        expired: makes the error of an item whose time is over.
    """

    MAX_SIZE = 200
    PATIENCE = 0.25
    """How long a batch may go on, in s, of which an item was withdrawn."""

    def __init__(
        self,
        run_batch: RunBatch[T],
        max_concurrency: int,
        timeout: float,
        expired: Callable[[], Exception],
    ) -> None:
        self._run_batch = run_batch
        self._expired = expired
        self._free = max_concurrency
        self._timeout = timeout
        self._waiting: deque[_Call[T]] = deque()
        self._batches: dict[asyncio.Task[None], list[_Call[T]]] = {}
        self._doubtful: set[asyncio.Task[None]] = set()

    async def run(self, item: T) -> None:
        """Send an item, and return when that is done.

        One that is cancelled while it waits is not sent.

        Raises:
            Exception: what sending it raised, or what `expired` made at its deadline.
        """
        deadline = Deadline(self._timeout)
        if self._free == 0:
            await self._wait(_Call(item, deadline))
            return
        self._free -= 1
        try:
            await self._run_batch([item], deadline)
        finally:
            self._free += 1
            self._start_next()

    @property
    def is_doubtful(self) -> bool:
        """Whether an item was withdrawn that may still be stored."""
        return bool(self._doubtful)

    async def settle(self, deadline: Deadline) -> None:
        """Return when no withdrawn item can be stored any more, or at the deadline."""
        # One that waits here for its own batch would wait for ever.
        doubtful = self._doubtful - {asyncio.current_task()}
        if doubtful:
            await asyncio.wait(doubtful, timeout=deadline.remaining())

    async def close(self) -> None:
        """Wait for what is under way."""
        while self._batches:
            await asyncio.wait(self._batches)

    async def _wait(self, call: _Call[T]) -> None:
        self._waiting.append(call)
        timer = asyncio.get_running_loop().call_later(call.deadline.remaining(), self._expire, call)
        try:
            await call.done
        except asyncio.CancelledError:
            self._withdraw(call)
            raise
        finally:
            timer.cancel()

    def _expire(self, call: _Call[T]) -> None:
        # One that is under way has the same deadline there.
        if call in self._waiting:
            call.fail(self._expired())

    def _withdraw(self, call: _Call[T]) -> None:
        for task, batch in self._batches.items():
            if call in batch:
                self._doubtful.add(task)
                task.get_loop().call_later(self.PATIENCE, task.cancel)

    def _start_next(self) -> None:
        while self._free and (batch := self._next_batch()):
            self._free -= 1
            task = asyncio.get_running_loop().create_task(self._send(batch))
            self._batches[task] = batch
            task.add_done_callback(self._finish)

    def _next_batch(self) -> list[_Call[T]]:
        batch: list[_Call[T]] = []
        while self._waiting and len(batch) < self.MAX_SIZE:
            if batch and self._waiting[0].is_alone:
                break
            call = self._waiting.popleft()
            if not call.done.done():
                batch.append(call)
                if call.is_alone:
                    break
        return batch

    async def _send(self, batch: list[_Call[T]]) -> None:
        deadline = min(call.deadline for call in batch)
        try:
            await self._run_batch([call.item for call in batch], deadline)
        except asyncio.CancelledError:
            self._send_alone(batch)
            raise
        except Exception as error:
            if len(batch) == 1:
                batch[0].fail(error)
            else:
                self._send_alone(batch)
        else:
            for call in batch:
                if not call.done.done():
                    call.done.set_result(None)

    def _send_alone(self, batch: list[_Call[T]]) -> None:
        for call in reversed(batch):
            if call.deadline.expired:
                call.fail(self._expired())
            elif not call.done.done():
                call.is_alone = True
                self._waiting.appendleft(call)

    def _finish(self, task: asyncio.Task[None]) -> None:
        del self._batches[task]
        self._doubtful.discard(task)
        self._free += 1
        self._start_next()
