"""Concurrency of the async API: tasks on an event loop, and threads for blocking calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeAlias, TypeVar

from jazzmine.backends.json.change import Change
from jazzmine.deadline import Deadline
from jazzmine.errors import WrongEventLoopError

__all__ = ["Affinity", "Batcher", "Condition", "KeyedLocks", "Work", "run_blocking"]

T = TypeVar("T")

Work: TypeAlias = Callable[..., Awaitable[T]]


class Affinity:
    """Restricts a store to the event loop that used it first.

    Args:
        after_fork: not used in the async API: a forked process has another event loop.
    """

    def __init__(self, after_fork: Callable[[], None] | None = None) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def ensure(self) -> None:
        """Raise `WrongEventLoopError` on any other event loop."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None:
                raise WrongEventLoopError(
                    "this store belongs to another event loop: open one in each loop"
                    " (each asyncio.run() makes a new one), or use the sync calls of"
                    " jazzmine.sync, which work in any thread"
                )
            self._loop = loop


async def run_blocking(function: Callable[..., T], *args: Any) -> T:
    """Run a blocking function in a thread; it is not interrupted by a cancellation."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)


_Batch: TypeAlias = "list[tuple[Change[T], asyncio.Future[Any]]]"


class Batcher(Generic[T]):
    """Commits changes in order; those that arrive during a commit are committed together next.

    `unsettled` is True while the change of a cancelled call is being committed: reads and
    writes then wait for `settle()`, so that the change cannot take effect after them.

    Args:
        commit: a blocking function that claims each change and sets its result or error. It
            leaves a change unclaimed that the next commit shall try. If it raises, its error
            becomes the error of all changes without one.
    """

    def __init__(self, commit: Callable[[Sequence[Change[T]]], None]) -> None:
        self.unsettled = False
        self._commit = commit
        self._waiting: _Batch[T] = []
        self._running: asyncio.Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jazzmine-writer")

    async def run(self, apply: Callable[[T], Any]) -> Any:
        """Commit a change, and return its result or raise its error.

        A cancelled call withdraws its change unless a commit has claimed it.
        """
        change = Change(apply)
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((change, future))
        self._start()
        try:
            return await future
        except asyncio.CancelledError:
            if not change.withdraw():
                self.unsettled = True
            raise

    async def settle(self) -> None:
        """Wait for the commit of changes whose calls were cancelled."""
        while self.unsettled and self._running is not None:
            await asyncio.wait([self._running])
        self.unsettled = False

    async def close(self) -> None:
        """Wait for the running commit."""
        while self._running is not None:
            await asyncio.wait([self._running])
        self._thread.shutdown(wait=False)

    def _start(self) -> None:
        if self._running is not None:
            return
        batch = [waiting for waiting in self._waiting if not waiting[1].done()]
        self._waiting.clear()
        if batch:
            loop = asyncio.get_running_loop()
            self._running = loop.create_future()
            # Faster than run_in_executor(), which passes the result through two futures.
            self._thread.submit(self._work, batch, loop)

    def _work(self, batch: _Batch[T], loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._commit([change for change, _ in batch])
        except BaseException as failure:
            for change, _ in batch:
                change.fail(failure)
        loop.call_soon_threadsafe(self._finish, batch)

    def _finish(self, batch: _Batch[T]) -> None:
        assert self._running is not None
        self._running.set_result(None)
        self._running = None
        self.unsettled = False
        self._waiting[:0] = [waiting for waiting in batch if not waiting[0].claimed]
        for change, future in batch:
            if future.done() or not change.claimed:
                continue
            if change.error is not None:
                future.set_exception(change.error)
            else:
                future.set_result(change.result)
        self._start()


class Condition(asyncio.Condition):
    """A condition that is waited for until a deadline."""

    async def wait_until(self, deadline: Deadline) -> bool:
        """Wait for a notification; return False if none came before the deadline."""
        try:
            await asyncio.wait_for(self.wait(), deadline.remaining())
        except asyncio.TimeoutError:
            return False
        return True


class KeyedLocks:
    """A lock for each key, acquired in the order of the calls; unused keys take no memory."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[bool]]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    async def acquire(self, key: str, timeout: float) -> bool:
        """Acquire the lock of a key; return False if it was not free within `timeout` s."""
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = deque()
            return True
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        waiting.append(turn)
        timer = loop.call_later(timeout, _time_out, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            # The lock may have been passed to this call at the moment of the cancellation.
            if turn.done() and not turn.cancelled() and turn.result():
                self.release(key)
            raise
        finally:
            timer.cancel()

    def release(self, key: str) -> None:
        """Release the lock of a key, for the call that has waited longest."""
        waiting = self._waiting[key]
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        del self._waiting[key]


def _time_out(turn: asyncio.Future[bool]) -> None:
    if not turn.done():
        turn.set_result(False)
