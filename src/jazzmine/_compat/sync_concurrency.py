"""Primitives of concurrency in the sync API: threads, in processes that may be forked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

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

Work: TypeAlias = Callable[..., T]

sleep = time.sleep


class Affinity:
    """Lets a store be used in any thread, and resets it in a forked process.

    Args:
        after_fork: called once in each forked process before the store is used there, to drop
            the connections and files that belong to the parent.
    """

    def __init__(self, after_fork: Work[None] | None = None) -> None:
        self._after_fork = after_fork
        self._pid = PROCESS.id
        self._resetting = threading.RLock()  # a signal handler may call the store

    def ensure(self) -> None:
        """Call `after_fork` if this is another process than at the last call."""
        if PROCESS.id == self._pid:
            return
        with self._resetting:
            if PROCESS.id != self._pid:
                if self._after_fork is not None:
                    self._after_fork()
                self._pid = PROCESS.id


def current_caller() -> object:
    """Return what makes one call after another: the thread."""
    return threading.get_ident()


class Event:
    """An event that is waited for with a time-out of any length.

    A thread that is interrupted while it waits for a `threading.Event` may leave that locked;
    setting it then blocks for ever.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: set[threading.Lock] = set()

    def is_set(self) -> bool:
        """Return whether the event is set."""
        return self._is_set

    def set(self) -> None:
        """Set the event, and wake all calls that wait for it."""
        self._is_set = True
        for waiter in self._waiting.copy():
            with suppress(RuntimeError):  # another call of this method has released it
                waiter.release()

    def clear(self) -> None:
        """Reset the event; the next calls wait again."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the event; return False if it was not set within `timeout` s."""
        waiter = threading.Lock()
        waiter.acquire()
        self._waiting.add(waiter)
        try:
            if self._is_set or timeout is None:
                return self._is_set or waiter.acquire()
            return waiter.acquire(timeout=max(0.0, min(timeout, threading.TIMEOUT_MAX)))
        finally:
            self._waiting.discard(waiter)


class ThreadEvent(Event):
    """An event that another thread sets."""

    @staticmethod
    def set_all(events: Iterable[ThreadEvent]) -> None:
        """Set events, in any thread."""
        for event in events:
            event.set()


class Task(threading.Thread):
    """Some work that is done beside the calls, in a thread.

    Args:
        work: it raises nothing.
        delay: in how many s it starts.
    """

    def __init__(self, work: Work[None], delay: float = 0.0) -> None:
        super().__init__(name="jazzmine-background", daemon=True)
        self._work = work
        self._delay = delay
        self._cancelled = Event()
        with suppress(RuntimeError):  # the program ends
            self.start()

    def run(self) -> None:
        """Do the work, unless it is cancelled before it starts."""
        if not (self._delay and self._cancelled.wait(self._delay)):
            self._work()

    @property
    def is_done(self) -> bool:
        """Whether the work is done."""
        return not self.is_alive()

    def wait(self, timeout: float | None) -> None:
        """Wait for the end of the work, `timeout` s at most."""
        with suppress(RuntimeError):  # it was never started
            self.join(timeout)

    def cancel(self) -> None:
        """Keep the work from being started; work that has started goes on."""
        self._cancelled.set()


def run_detached(start: Callable[[Work[None]], Task], work: Work[None], *, wait: bool) -> None:
    """Do some work; a thread is not cancelled, and may be the last to run before the program ends.

    Args:
        start: does the work again, in a thread, if an exception of a signal handler interrupts it.
        wait: not used in the sync API: this returns when the work is done.
    """
    try:
        work()
    except BaseException:
        start(work)
        raise


def run_blocking(function: Callable[..., T], *args: Any) -> T:
    """Run a blocking function to its end."""
    return function(*args)


def run_given(function: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a user's function."""
    return function(*args)


def run_in_task(work: Work[T]) -> T:
    """Do some work: a thread is not cancelled."""
    return work()
