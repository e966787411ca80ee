"""Calls that wait for their turn are sent together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from jazzmine.deadline import Deadline

__all__ = ["MicroBatcher", "RunBatch"]

T = TypeVar("T")
RunBatch = Callable[[Sequence[T], Deadline], Awaitable[None]]


class _Call(Generic[T]):
    """A call that waits; `batch` is the task that sends it, if there is one."""

    def __init__(self, item: T, deadline: Deadline) -> None:
        self.item = item
        self.deadline = deadline
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.batch: asyncio.Task[None] | None = None

    def end(self, error: Exception | None = None) -> None:
        if not self.done.done():
            self.done.set_exception(error) if error else self.done.set_result(None)


class MicroBatcher(Generic[T]):
    """Runs each item at once; while too many are under way, items are collected into a batch.

    Each item keeps its own deadline. When a batch fails, its items are sent again one by one.

    Args:
        run_batch: sends some items, any of them again if need be, until a deadline. When it is
            cancelled, none of them takes effect after a later call has returned.
        max_concurrency: how many calls of it there are at a time.
        expired: makes the error of an item whose deadline passed before it was sent.
    """

    MAX_SIZE = 200
    CANCEL_AFTER = 0.25
    """How long a batch may go on, in s, after one of its calls was cancelled."""

    def __init__(
        self, run_batch: RunBatch[T], max_concurrency: int, expired: Callable[[], Exception]
    ) -> None:
        self._run_batch = run_batch
        self._expired = expired
        self._free = max_concurrency
        self._waiting: list[_Call[T]] = []
        self._alone: list[_Call[T]] = []  # the calls of batches that failed

    async def run(self, item: T, deadline: Deadline) -> None:
        """Send an item, and return when that is done.

        A call that is cancelled while it waits is not sent. One whose batch is under way ends
        with the batch; a batch that takes long is cancelled, and sent again without the call.

        Raises:
            Exception: what sending it raised, or what `expired` made at its deadline.
        """
        if self._free == 0:
            await self._wait(_Call(item, deadline))
            return
        self._free -= 1
        try:
            await self._run_batch([item], deadline)
        finally:
            self._release()

    async def _wait(self, call: _Call[T]) -> None:
        self._waiting.append(call)
        timer = asyncio.get_running_loop().call_later(call.deadline.remaining(), self._expire, call)
        try:
            await call.done
        except asyncio.CancelledError:
            await self._end_batch(call)
            raise
        finally:
            timer.cancel()

    def _expire(self, call: _Call[T]) -> None:
        # A call that is under way has the same deadline there.
        if call.batch is None:
            call.end(self._expired())

    async def _end_batch(self, call: _Call[T]) -> None:
        """Return when the batch of a cancelled call has ended, or was cancelled."""
        task, timeout = call.batch, self.CANCEL_AFTER
        while task is not None and not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task], timeout=timeout)
            if not task.done():
                task.cancel()
            timeout = 1.0

    def _release(self) -> None:
        """End a call of `run_batch`, and start what waited for that."""
        self._free += 1
        if not (self._alone or self._waiting):
            return
        self._alone, self._waiting = _pending(self._alone), _pending(self._waiting)
        while self._free and (self._alone or self._waiting):
            if self._alone:
                batch = [self._alone.pop(0)]
            else:
                batch = self._waiting[: self.MAX_SIZE]
                del self._waiting[: self.MAX_SIZE]
            self._free -= 1
            task = asyncio.get_running_loop().create_task(self._send(batch))
            for call in batch:
                call.batch = task
            task.add_done_callback(lambda _: self._release())

    async def _send(self, batch: list[_Call[T]]) -> None:
        deadline = min(call.deadline for call in batch)
        try:
            await self._run_batch([call.item for call in batch], deadline)
        except asyncio.CancelledError:
            self._waiting[:0] = self._not_sent(batch)
            raise
        except Exception as error:
            if len(batch) == 1:
                batch[0].end(error)
            else:
                self._alone += self._not_sent(batch)
        else:
            for call in batch:
                call.end()

    def _not_sent(self, batch: list[_Call[T]]) -> list[_Call[T]]:
        """Return the calls that are to be sent again."""
        for call in batch:
            call.batch = None
            if call.deadline.expired:
                call.end(self._expired())
        return _pending(batch)


def _pending(calls: list[_Call[T]]) -> list[_Call[T]]:
    return [call for call in calls if not call.done.done()]
