"""Primitives of concurrency in the async API: tasks on an event loop, and threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from inspect import isawaitable
from typing import Any, TypeAlias, TypeVar

from jazzmine.errors import WrongEventLoopError
from jazzmine.process import PROCESS

__all__ = [
    "Affinity",
    "Event",
    "Task",
    "ThreadEvent",
    "Work",
    "current_caller",
    "run_blocking",
    "run_detached",
    "run_given",
    "run_in_task",
    "sleep",
]

T = TypeVar("T")

Work: TypeAlias = Callable[..., Awaitable[T]]

sleep = asyncio.sleep


class Affinity:
    """Restricts a store to the event loop, and the process, that used it first.

    Args:
        after_fork: not used in the async API: what is open belongs to the parent's event loop.
    """

    def __init__(self, after_fork: Work[None] | None = None) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def ensure(self) -> None:
        """Raise `WrongEventLoopError` on any other event loop, and in any other process."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise WrongEventLoopError(
                "no event loop of asyncio is running here: the async API needs one (it does not run"
                " on trio, nor in a process that a coroutine has forked); the sync calls of"
                " jazzmine.sync work anywhere"
            ) from None
        if loop is self._loop and self._pid == PROCESS.id:
            return
        if self._loop is None:
            self._loop, self._pid = loop, PROCESS.id
        elif self._pid != PROCESS.id:
            raise WrongEventLoopError(
                "this store was opened in another process: open one after the fork, or use the"
                " sync calls of jazzmine.sync, which work in forked processes"
            )
        else:
            raise WrongEventLoopError(
                "this store belongs to another event loop: open one in each loop"
                " (each asyncio.run() makes a new one), or use the sync calls of"
                " jazzmine.sync, which work in any thread"
            )


def current_caller() -> object:
    """Return what makes one call after another: the task."""
    return asyncio.current_task()


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


class ThreadEvent(Event):
    """An event of this event loop that another thread sets."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()

    @staticmethod
    def set_all(events: Sequence[ThreadEvent]) -> None:
        """Set events of one loop, in any thread; nobody waits for those of a closed loop."""
        if events:
            with suppress(RuntimeError):
                events[0]._loop.call_soon_threadsafe(_set_all, events)


def _set_all(events: Iterable[Event]) -> None:
    for event in events:
        event.set()


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


# A call that waits for a silent server keeps its thread until its deadline. So there are more
# threads than a program has sessions at once; they are started as they are needed.
_MAX_THREADS = 1000


class _Threads:
    """The threads of blocking calls: the program's tools may use all of its event loop's."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin without a thread, as a forked process does."""
        self.executor = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="jazzmine-blocking")


_THREADS = _Threads()
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_THREADS.start)


async def run_blocking(function: Callable[..., T], *args: Any) -> T:
    """Run a blocking function in a thread; it is not interrupted by a cancellation."""
    call = partial(copy_context().run, function, *args)
    return await asyncio.get_running_loop().run_in_executor(_THREADS.executor, call)


async def run_given(function: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a user's function, which may be a coroutine function or block."""
    result = await run_blocking(function, *args)
    return await result if isawaitable(result) else result


_running: set[asyncio.Future[Any]] = set()


async def run_in_task(work: Work[T]) -> T:
    """Do some work in a task, which is cancelled once, however often this call is cancelled.

    The task ends by itself then: this call does not wait for that.
    """
    task = asyncio.ensure_future(work())
    _running.add(task)
    task.add_done_callback(_running.discard)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        raise
