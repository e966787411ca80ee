"""The thread that writes: the changes that wait share a transaction."""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias
from weakref import finalize

from jazzmine.backends.sqlite.errors import closed_meanwhile, translated
from jazzmine.deadline import backoff

__all__ = ["Call", "Writer", "apply_all"]

# Pauses between two attempts to begin a transaction while another process writes, in s. With longer
# ones, a process that has waited for long would be the least likely to come next.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.002


class Event(Protocol):
    """An event that another thread waits for."""

    def set(self) -> None:
        """Wake that thread, or its event loop."""


class Call:
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

    def __init__(self, change: Callable[[sqlite3.Connection], Any], done: Event) -> None:
        self.change: Callable[[sqlite3.Connection], Any] = change
        self.done: Event = done
        self.result: Any = None
        self.error: BaseException | None = None
        self.begun: threading.Lock = threading.Lock()

    def cancel(self) -> bool:
        """Cancel a change that was not begun; return False if it was."""
        return self.begun.acquire(blocking=False)


_Queue: TypeAlias = "SimpleQueue[Call | None]"  # None ends the thread
_Commit: TypeAlias = Callable[[Sequence[Call]], bool]


class Writer:
    """Runs the thread.

    Args:
        commit: makes the changes of some calls in one transaction; returns False if another
            process writes, so that none was begun.
    """

    def __init__(self, commit: _Commit) -> None:
        self._queue: _Queue = SimpleQueue()
        self._closed = False
        # The program may end without closing it, and the thread refers to no writer: it ends when
        # the writer is gone.
        self._thread = threading.Thread(
            target=_work, args=(self._queue, commit), name="jazzmine-writer", daemon=True
        )
        finalize(self, self._queue.put, None).atexit = False
        self._thread.start()

    def add(self, call: Call) -> None:
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


def _work(queue: _Queue, commit: _Commit) -> None:
    while not _write(queue, commit, queue.get()):
        pass  # the calls, which refer to the writer, are dropped before the next ones


def _write(queue: _Queue, commit: _Commit, first: Call | None) -> bool:
    """Make the changes that wait in one transaction; return whether they are the last ones."""
    waiting, pauses = [first], backoff(_SHORTEST_PAUSE, _LONGEST_PAUSE)
    has_waited = False
    while True:
        while not queue.empty():
            waiting.append(queue.get())
        calls = [call for call in waiting if call is not None and not call.begun.locked()]
        try:
            if not calls or commit(calls):
                break
        except BaseException as error:
            _fail(calls, error)
            break
        has_waited = True
        time.sleep(next(pauses))
    for call in calls:
        call.done.set()
    if has_waited:
        # Other processes wait, too: one that writes again at once would keep them waiting.
        time.sleep(_SHORTEST_PAUSE)
    return None in waiting


def apply_all(connection: sqlite3.Connection, calls: Sequence[Call], path: str) -> None:
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


def _fail(calls: Sequence[Call], error: BaseException) -> None:
    """Let calls fail with the error of their transaction, unless they have one of their own."""
    for call in calls:
        call.begun.acquire(blocking=False)
        call.error = call.error or _copied(error)


def _copied(error: BaseException) -> BaseException:
    """Return an error for one caller: of a shared one, each caller would extend the traceback."""
    try:
        copied = copy(error)
    except Exception:  # not every class can be copied
        return error
    copied.__cause__ = error.__cause__
    return copied.with_traceback(error.__traceback__)
