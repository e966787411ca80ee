"""Calls that wait for their turn are sent together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from jazzmine.deadline import Deadline

__all__ = ["MicroBatcher", "RunBatch"]

T = TypeVar("T")
RunBatch = Callable[[Sequence[T], Deadline], Awaitable[None]]


class _Call(Generic[T]):
    """A call that waits.

    Attributes:
        batch: the task that sends it, if there is one.
        is_alone: whether it is to be sent alone, since it was part of a batch that failed.
    """

    def __init__(self, item: T, deadline: Deadline) -> None:
        self.item = item
        self.deadline = deadline
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.batch: asyncio.Task[None] | None = None
        self.is_alone = False

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class MicroBatcher(Generic[T]):
    """Runs each item at once; items for which there is no room yet are sent as one batch.

    Each item keeps its own deadline. When a batch fails, its items are sent again one by one.

    Args:
        run_batch: sends some items, any of them again if need be, until a deadline. When it is
            cancelled, none of them takes effect after a later call has returned.
        max_concurrency: how many calls of it there are at a time.
        expired: makes the error of an item whose time is over before it could be sent.
    """

    MAX_SIZE = 200
    PATIENCE = 0.25
    """How long a batch may go on, in s, of which a call was cancelled."""

    def __init__(
        self,
        run_batch: RunBatch[T],
        max_concurrency: int,
        expired: Callable[[], Exception],
    ) -> None:
        self._run_batch = run_batch
        self._expired = expired
        self._free = max_concurrency
        self._waiting: deque[_Call[T]] = deque()

    async def run(self, item: T, deadline: Deadline) -> None:
        """Send an item, and return when that is done.

        A call that is cancelled while it waits is not sent. One whose batch is under way ends
        with the batch, or when that is given up a moment later and sent again without it.

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
            self._free += 1
            self._start_next()

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
        # One that is under way has the same deadline there.
        if call in self._waiting:
            call.fail(self._expired())

    async def _end_batch(self, call: _Call[T]) -> None:
        """Return when the batch of a cancelled call has come to its end, or is given up."""
        task, patience = call.batch, self.PATIENCE
        while task is not None and not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task], timeout=patience)
            if not task.done():
                task.cancel()
            patience = 1.0

    def _start_next(self) -> None:
        while self._free and (batch := self._next_batch()):
            self._free -= 1
            task = asyncio.get_running_loop().create_task(self._send(batch))
            for call in batch:
                call.batch = task
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
            self._send_again(batch)
            raise
        except Exception as error:
            if len(batch) == 1:
                batch[0].fail(error)
            else:
                self._send_again(batch, alone=True)
        else:
            for call in batch:
                if not call.done.done():
                    call.done.set_result(None)

    def _send_again(self, batch: list[_Call[T]], *, alone: bool = False) -> None:
        for call in reversed(batch):
            if call.deadline.expired:
                call.fail(self._expired())
            elif not call.done.done():
                call.batch, call.is_alone = None, alone or call.is_alone
                self._waiting.appendleft(call)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._free += 1
        self._start_next()
