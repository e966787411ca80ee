"""The thread that writes: the changes that wait share a transaction."""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from queue import SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import finalize

from jazzmine.backends.sqlite.errors import closed_meanwhile, translated
from jazzmine.deadline import backoff

__all__ = ["Call", "Writer", "apply_all"]

E = TypeVar("E")

# Pauses between two attempts to begin a transaction while another process writes, in s.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.002


class Call(Generic[E]):
    """A change that a caller waits for, with its result or its error.

    Args:
        change: called with a connection in a transaction; returns the result.
        done: the event that is set at the end.

    Attributes:
        begun: acquired by the one that comes first: the thread that makes the change, or the
            caller that cancels it.
        result, error: what came of it.
    """

    __slots__ = ("begun", "change", "done", "error", "result")

    def __init__(self, change: Callable[[sqlite3.Connection], Any], done: E) -> None:
        self.change: Callable[[sqlite3.Connection], Any] = change
        self.done: E = done
        self.result: Any = None
        self.error: BaseException | None = None
        self.begun: threading.Lock = threading.Lock()

    def cancel(self) -> bool:
        """Cancel a change that was not begun; return False if it was."""
        return self.begun.acquire(blocking=False)


_Queue: TypeAlias = "SimpleQueue[Call[Any] | None]"  # None ends the thread
_Commit: TypeAlias = Callable[[Sequence[Call[Any]]], bool]


class Writer(Generic[E]):
    """Runs the thread.

    Args:
        commit: makes the changes of some calls in one transaction; returns False if another
            process writes, so that none was begun.
        set_all: sets events.
    """

    def __init__(self, commit: _Commit, set_all: Callable[[Sequence[E]], None]) -> None:
        self._queue: _Queue = SimpleQueue()
        self._closed = False
        arguments = (self._queue, commit, set_all)
        # The program may end without closing it, and the thread refers to no writer: it ends when
        # the writer is gone.
        self._thread = threading.Thread(
            target=_work, args=arguments, name="jazzmine-writer", daemon=True
        )
        finalize(self, self._queue.put, None).atexit = False
        self._thread.start()

    def add(self, call: Call[E]) -> None:
        """Have a change made after those that were added before.

        Raises:
            StoreClosedError: the writer is closed, or the program ends, and with it its threads.
        """
        self._queue.put(call)
        if (self._closed or sys.is_finalizing()) and call.cancel():
            raise closed_meanwhile()

    def close(self, timeout: float) -> None:
        """Make the changes that wait, for `timeout` s at most, and end the thread."""
        self._closed = True
        self._queue.put(None)
        if not sys.is_finalizing():
            self._thread.join(timeout)


_done = attrgetter("done")


def _work(queue: _Queue, commit: _Commit, set_all: Callable[[Sequence[Any]], None]) -> None:
    calls: list[Call[Any]] = []
    is_last = False
    while not is_last:
        calls.clear()  # they refer to the writer
        is_last = _take_all(queue, calls)
        pauses = None
        while calls:
            try:
                if commit(calls):
                    break
            except BaseException as error:
                _fail(calls, error)
                break
            pauses = pauses or backoff(_SHORTEST_PAUSE, _LONGEST_PAUSE)
            time.sleep(next(pauses))
            is_last = is_last or _take_all(queue, calls, wait=False)
            calls = [call for call in calls if not call.begun.locked()]
        set_all(list(map(_done, calls)))
        if pauses is not None:
            # Other processes wait, too: one that writes again at once would keep them waiting.
            time.sleep(_SHORTEST_PAUSE)


def _take_all(queue: _Queue, calls: list[Call[Any]], *, wait: bool = True) -> bool:
    """Add the calls of the queue to others; return whether they are the last ones."""
    while wait or not queue.empty():
        wait = False
        call = queue.get()
        if call is None:
            return True
        calls.append(call)
    return False


def apply_all(connection: sqlite3.Connection, calls: Sequence[Call[Any]], path: str) -> None:
    """Make the changes of calls; one that fails is undone without the others.

    Args:
        connection: in a write transaction.
        calls: those that were not cancelled get a result or an error.
        path: the file of the database, for error messages.

    Raises:
        sqlite3.Error: the transaction has ended.
    """
    for call in calls:
        if not call.begun.acquire(blocking=False):
            continue
        connection.execute("SAVEPOINT call")
        try:
            call.result = call.change(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO call")
            call.error = translated(error, path)
        connection.execute("RELEASE call")


def _fail(calls: Sequence[Call[Any]], error: BaseException) -> None:
    """Let calls fail with the error of their transaction, unless they have one of their own."""
    for call in calls:
        call.begun.acquire(blocking=False)
        call.error = call.error or error
