"""Primitives of concurrency: tasks on an event loop in the async API, threads in the sync API."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import lru_cache, partial
from inspect import isawaitable
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from jazzmine.errors import WrongEventLoopError
from jazzmine.process import PROCESS

T = TypeVar("T")
P = ParamSpec("P")

# The async API

AsyncWork: TypeAlias = Callable[..., Awaitable[T]]
AsyncMethod: TypeAlias = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]

async_sleep = asyncio.sleep


class AsyncAffinity:
    """Restricts a store to the event loop, and the process, that used it first.

    Args:
        after_fork: not used in the async API: connections belong to the parent's event loop.
    """

    def __init__(self, after_fork: AsyncWork[None]) -> None:
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


class AsyncEvent:
    """An event that is waited for with a time-out."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake the waiting tasks; setting it again does nothing."""
        self._event.set()

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait for the event; return False if it was not set within `timeout` s."""
        try:
            async with asyncio.timeout(timeout):
                return await self._event.wait()
        except TimeoutError:
            return False


class AsyncThreadEvent(AsyncEvent):
    """An event of this event loop that another thread sets."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()

    def set(self) -> None:
        """Wake the waiting tasks, from any thread; a closed loop is left alone."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)


class AsyncTask:
    """Background work, in a task.

    Args:
        work: raises nothing.
    """

    def __init__(self, work: AsyncWork[None]) -> None:
        self._task = asyncio.ensure_future(work())
        # asyncio must not report the task if the program ends before it.
        self._task._log_destroy_pending = False  # type: ignore[attr-defined]

    @property
    def is_done(self) -> bool:
        """Whether the work is done."""
        return self._task.done()

    async def wait(self, timeout: float | None) -> None:
        """Wait for the end of the work, `timeout` s at most."""
        await asyncio.wait([self._task], timeout=timeout)

    async def cancel(self) -> None:
        """Cancel the work, and wait for its end."""
        self._task.cancel()
        await asyncio.wait([self._task])


# A call that waits for a silent server keeps its thread until its deadline, so the limit is high.
# Threads are started as they are needed.
_MAX_THREADS = 1000


@lru_cache(maxsize=1)
def _threads(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process for blocking calls; a forked process has others.

    Tools of the program may block the event loop's own threads.
    """
    return ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="jazzmine-blocking")


async def async_run_blocking(function: Callable[..., T], *args: Any) -> T:
    """Run a blocking function in a thread; it is not interrupted by a cancellation."""
    call = partial(copy_context().run, function, *args)
    return await asyncio.get_running_loop().run_in_executor(_threads(PROCESS.id), call)


async def async_run_given(function: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a user's function; it may block, or be a coroutine function."""
    result = await async_run_blocking(function, *args)
    return await result if isawaitable(result) else result


_running: set[asyncio.Future[Any]] = set()


def _started(work: Awaitable[T]) -> asyncio.Future[T]:
    """Start a task that goes on although nothing but the event loop refers to it."""
    task = asyncio.ensure_future(work)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


async def async_finish(work: AsyncWork[None]) -> None:
    """Do work, which goes on to its end if this call is cancelled."""
    await asyncio.shield(_started(work()))


async def async_run_in_task(work: AsyncWork[T]) -> T:
    """Do work in a task, and cancel the task once, however often this call is cancelled.

    A cancelled call does not wait for the end of its task.
    """
    task = _started(work())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        raise


# The sync API

SyncWork: TypeAlias = Callable[..., T]
SyncMethod: TypeAlias = Callable[Concatenate[Any, P], T]

sync_sleep = time.sleep


class SyncAffinity:
    """Lets a store be used in any thread, and resets it in a forked process.

    Args:
        after_fork: called once in each forked process before the store is used there, to drop
            the connections and files that belong to the parent.
    """

    def __init__(self, after_fork: SyncWork[None]) -> None:
        self._after_fork = after_fork
        self._pid = PROCESS.id
        self._resetting = threading.Lock()

    def ensure(self) -> None:
        """Call `after_fork` if this is another process than at the last call."""
        if PROCESS.id == self._pid:
            return
        with self._resetting:
            if PROCESS.id != self._pid:
                self._after_fork()
                self._pid = PROCESS.id


class SyncEvent:
    """An event that is waited for with a time-out.

    It is a lock that is released when the event happens. If Ctrl-C interrupted a thread that waits
    for an event of `threading`, the thread that sets the event could wait for ever.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Wake the waiting threads; setting it again does nothing."""
        with suppress(RuntimeError):
            self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the event; return False if it was not set within `timeout` s."""
        longest = threading.TIMEOUT_MAX if timeout is None else min(timeout, threading.TIMEOUT_MAX)
        if not self._lock.acquire(timeout=longest):
            return False
        with suppress(RuntimeError):  # it was set again meanwhile
            self._lock.release()
        return True


# Any thread may set it.
SyncThreadEvent = SyncEvent


class SyncTask(threading.Thread):
    """Background work, in a thread.

    Args:
        work: raises nothing.
    """

    def __init__(self, work: SyncWork[None]) -> None:
        super().__init__(name="jazzmine-background", target=work, daemon=True)
        with suppress(RuntimeError):  # the program ends
            self.start()

    @property
    def is_done(self) -> bool:
        """Whether the work is done."""
        return not self.is_alive()

    def wait(self, timeout: float | None) -> None:
        """Wait for the end of the work, `timeout` s at most."""
        with suppress(RuntimeError):  # it was never started
            self.join(timeout)

    def cancel(self) -> None:
        """Let the work go on: a thread is not cancelled."""


def sync_run_blocking(function: Callable[..., T], *args: Any) -> T:
    """Run a blocking function to its end."""
    return function(*args)


sync_run_given = sync_run_blocking


def sync_run_in_task(work: SyncWork[T]) -> T:
    """Do work: a thread is not cancelled."""
    return work()


sync_finish = sync_run_in_task
