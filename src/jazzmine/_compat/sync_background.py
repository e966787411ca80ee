"""What has to go on beside or after a call in the blocking world: threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event

from jazzmine.deadline import Deadline

__all__ = ["BackgroundTask", "BackgroundTasks", "Event", "Periodic", "sleep"]

sleep = time.sleep


class BackgroundTask:
    """Work beside the calls, one run at a time.

    Args:
        work: what is run; it raises nothing.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start a run, unless one is under way."""
        with self._mutex:
            if self._thread is None or not self._thread.is_alive():
                self._thread = _thread(self._work)
                _start(self._thread)

    def close(self, timeout: float) -> None:
        """Wait for the run that is under way, `timeout` s at most."""
        if self._thread is not None:
            _join(self._thread, timeout)


class BackgroundTasks:
    """Work that must be done whether or not its caller is still there."""

    def __init__(self) -> None:
        self._threads: set[threading.Thread] = set()

    def run(self, work: Callable[[], None], *, wait: bool) -> None:
        """Have the work done; it raises nothing.

        Args:
            wait: whether the caller has the time to wait for it; here it always waits.
        """
        work()

    def start(self, work: Callable[[], None]) -> None:
        """Have the work done beside the calls; it raises nothing."""

        def run() -> None:
            try:
                work()
            finally:
                self._threads.discard(threading.current_thread())

        thread = _thread(run)
        self._threads.add(thread)
        _start(thread)

    def close(self, timeout: float) -> None:
        """Give what is under way `timeout` s to come to its end."""
        deadline = Deadline(timeout)
        for thread in self._threads.copy():
            _join(thread, deadline.remaining())


class Periodic:
    """A context manager that does some work time and again for as long as its block runs.

    Args:
        every: the time, in s, before the first time and between two.
        work: returns whether to go on; it raises nothing.
    """

    def __init__(self, every: float, work: Callable[[], bool]) -> None:
        self._every = every
        self._work = work
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="jazzmine-renewal", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _repeat(self) -> None:
        while not self._over.wait(self._every) and self._work():
            pass


def _thread(work: Callable[[], None]) -> threading.Thread:
    return threading.Thread(target=work, name="jazzmine-background", daemon=True)


def _start(thread: threading.Thread) -> None:
    with suppress(RuntimeError):  # the program ends
        thread.start()


def _join(thread: threading.Thread, timeout: float) -> None:
    with suppress(RuntimeError):  # it was never started
        thread.join(timeout)
