"""Primitives of concurrency in the async API: tasks on an event loop, and threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar
from weakref import finalize

from jazzmine.errors import WrongEventLoopError

__all__ = [
    "Affinity",
    "Event",
    "Executor",
    "Task",
    "Work",
    "run_blocking",
    "run_detached",
    "sleep",
]

T = TypeVar("T")

Work: TypeAlias = Callable[..., Awaitable[T]]

_Functions: TypeAlias = "SimpleQueue[Callable[[], object] | None]"

sleep = asyncio.sleep


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


class Event:
    """An event that is waited for with a time-out.

    `wait_for(asyncio.Event().wait(), timeout)` makes a task, and loses a cancellation that comes
    at the moment of the event (before Python 3.12).
    """

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: set[asyncio.Future[bool]] = set()

    def is_set(self) -> bool:
        """Return whether the event is set."""
        return self._is_set

    def set(self) -> None:
        """Set the event, and wake all calls that wait for it."""
        self._is_set = True
        for waiter in self._waiting:
            _resolve(waiter, True)

    def clear(self) -> None:
        """Reset the event; the next calls wait again."""
        self._is_set = False

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait for the event; return False if it was not set within `timeout` s."""
        if self._is_set:
            return True
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        timer = None if timeout is None else loop.call_later(timeout, _resolve, waiter, False)
        self._waiting.add(waiter)
        try:
            return await waiter
        finally:
            self._waiting.discard(waiter)
            if timer is not None:
                timer.cancel()


def _resolve(future: asyncio.Future[bool], result: bool) -> None:
    if not future.done():
        future.set_result(result)


class Task:
    """Some work that is done beside the calls, in a task.

    Args:
        work: it raises nothing.
        delay: in how many s it starts.
    """

    def __init__(self, work: Work[None], delay: float = 0.0) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        if delay:
            self._timer = asyncio.get_running_loop().call_later(delay, self._start)
        else:
            self._start()

    @property
    def is_done(self) -> bool:
        """Whether the work is done."""
        return self._task is not None and self._task.done()

    async def wait(self, timeout: float | None) -> None:
        """Wait for the end of the work if it has started, `timeout` s at most."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout)

    async def cancel(self) -> None:
        """Cancel the work, and wait for its end."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _start(self) -> None:
        self._task = asyncio.ensure_future(self._run())
        # A program may end before it: that is nothing to be reported.
        self._task._log_destroy_pending = False  # type: ignore[attr-defined]

    async def _run(self) -> None:
        await self._work()


async def run_detached(
    start: Callable[[Work[None]], Task], work: Work[None], *, wait: bool
) -> None:
    """Start some work that goes on if this call is cancelled.

    Args:
        start: starts it in a task.
        wait: whether to return only when it is done.
    """
    task = start(work)
    if wait:
        await task.wait(None)


async def run_blocking(function: Callable[..., T], *args: Any) -> T:
    """Run a blocking function in a thread; it is not interrupted by a cancellation."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)


class Executor:
    """Runs blocking functions in a thread of its own, one after another.

    A `ThreadPoolExecutor` does the same with a future and several locks for each function, which
    take as long as a small write to a database.

    Attributes:
        is_busy: whether a function is being run.
    """

    def __init__(self, name: str) -> None:
        self.is_busy = False
        self._name = name
        self._functions: _Functions = SimpleQueue()
        self._end: finalize[[_Functions, threading.Thread], Executor] | None = None

    async def run(self, function: Callable[[], None], then: Callable[[], None]) -> None:
        """Run a function, and `then` after it; a cancellation interrupts neither."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def finish(error: BaseException | None) -> None:
            self.is_busy = False
            then()
            if not done.done():
                done.set_exception(error) if error else done.set_result(None)

        def work() -> None:
            error = None
            try:
                function()
            except BaseException as failure:
                error = failure
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(finish, error)

        if self._end is None:
            self._end = self._start()
        self.is_busy = True
        self._functions.put(work)
        await done

    def _start(self) -> finalize[[_Functions, threading.Thread], Executor]:
        # The thread refers to the queue alone: it ends when this object is gone. When the program
        # ends, it finishes what it has been given.
        functions = self._functions
        thread = threading.Thread(target=_run_all, args=[functions], name=self._name, daemon=True)
        thread.start()
        return finalize(self, _end, functions, thread)

    def close(self) -> None:
        """End the thread when it is idle."""
        if self._end is not None:
            self._end.detach()
            self._end = None
            self._functions.put(None)


def _run_all(functions: _Functions) -> None:
    while (function := functions.get()) is not None:
        function()
        function = None  # what it refers to is not needed until the next one comes


def _end(functions: _Functions, thread: threading.Thread) -> None:
    functions.put(None)
    if thread is not threading.current_thread():
        thread.join()
