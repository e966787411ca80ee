"""The thread that writes: the changes that wait share a transaction."""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeAlias
from weakref import finalize

from jazzmine.backends.sqlite.errors import closed_meanwhile, translated
from jazzmine.deadline import backoff

# Pauses between two attempts to begin a transaction while another process writes, in s. With longer
# ones, a process that has waited for long would be the least likely to come next.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.002


class Call:
    """A change that a caller waits for, with its result or its error.

    Args:
        change: called with a connection in a transaction and the arguments; returns the result.
        arguments: those of the change.
        wake: called at the end.

    Attributes:
        begun: acquired by the one that comes first: the thread that makes the change, or the
            caller that cancels it.
        result, error: what came of it.
    """

    __slots__ = ("arguments", "begun", "change", "error", "result", "wake")

    def __init__(
        self, change: Callable[..., Any], arguments: Sequence[Any], wake: Callable[[], None]
    ) -> None:
        self.change: Callable[..., Any] = change
        self.arguments: Sequence[Any] = arguments
        self.wake: Callable[[], None] = wake
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
    calls: list[Any] = [first]
    is_last, pauses = False, None
    while True:
        while not queue.empty():
            calls.append(queue.get())
        if None in calls:
            is_last = True
            calls.remove(None)
        try:
            if not calls or commit(calls):
                break
        except BaseException as error:
            for call in calls:
                call.error = call.error or error
            break
        pauses = pauses or backoff(_SHORTEST_PAUSE, _LONGEST_PAUSE)
        time.sleep(next(pauses))
        calls = [call for call in calls if not call.begun.locked()]  # the others were cancelled
    for call in calls:
        call.wake()
    if pauses is not None:
        # Other processes wait, too: one that writes again at once would keep them waiting.
        time.sleep(_SHORTEST_PAUSE)
    return is_last


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
            call.result = call.change(connection, *call.arguments)
        except Exception as error:
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO call")
            call.error = translated(error, path)
        connection.execute("RELEASE call")
