"""Changes that arrive during a commit are committed together, in a thread of their own."""

from __future__ import annotations

import atexit
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import finalize

from jazzmine._compat.async_concurrency import ThreadEvent
from jazzmine.change import Change
from jazzmine.deadline import Deadline
from jazzmine.errors import StoreClosedError

__all__ = ["Batcher"]

T = TypeVar("T")

# Pauses between two attempts to commit while another process writes, in s.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.01

# After so many attempts, pauses are short again for a while: what has waited for some 50 ms would
# else go on losing to those that have just come.
_PATIENT, _IMPATIENT = 12, 500

# After a commit of several changes failed, each is tried alone; for so long at most, in s.
_ALONE = 1.0

# How long a program that ends waits for commits, in s. What is cut off then has not been answered,
# and is stored as a whole or not at all.
_LAST_COMMITS = 1.0


# Events are set when what was put before them is committed; a `ThreadEvent` or None also ends the
# thread.
_Mark: TypeAlias = "ThreadEvent | threading.Event | None"
_Calls: TypeAlias = "SimpleQueue[Change[Any] | _Mark]"
_Commit: TypeAlias = Callable[[Sequence[Change[Any]]], None]


class Batcher(Generic[T]):
    """Commits changes in order; those that arrive during a commit are committed together next.

    A thread commits them in both APIs. No signal handler runs in it, so that no interrupt comes
    between a commit and the note that it is done, and a handler may call the store.

    Args:
        commit: a blocking function that claims each change and sets its result or error. It
            leaves a change unclaimed that is to be tried again, after a short pause. If it
            raises, nothing was changed; an `OSError` or `MemoryError` may be that of one change,
            and so each is tried alone.

    Attributes:
        interrupted: the changes of interrupted calls that are being committed. Reads wait for
            `settle()` if there are any, so that none can take effect after them.
    """

    def __init__(self, commit: Callable[[Sequence[Change[T]]], None]) -> None:
        self._commit = commit
        self._calls: _Calls = SimpleQueue()
        self._running = threading.Lock()
        self._used = self._started = self._closed = False
        self.interrupted: set[Change[T]] = set()
        # The thread does not refer to this object: it ends when this object is gone.
        finalize(self, self._calls.put, None).atexit = False

    async def run(
        self, apply: Callable[[T], Any], *, waited: float = 0.0, flushed: bool = True
    ) -> Any:
        """Commit a change, and return its result or raise its error.

        A call that is interrupted withdraws its change unless a commit has claimed it.

        Args:
            apply: changes the T, and returns the result.
            waited: how much of its time the call has used already, in s.
            flushed: whether the call waits for the disk.
        """
        call = Change(apply, waited, flushed=flushed, done=ThreadEvent())
        try:
            self._used = True
            self._calls.put(call)
            if not self._started and not self._closed:
                self._start()
            elif self._closed and call.withdraw():
                raise StoreClosedError("this store was closed while the call was under way")
            await call.done.wait()
        except BaseException:
            if not call.withdraw():
                self.interrupted.add(call)
            raise
        return call.outcome()

    async def settle(self) -> None:
        """Wait for the commit of changes whose calls were interrupted."""
        for call in tuple(self.interrupted):
            await call.done.wait()
            self.interrupted.discard(call)

    async def close(self) -> None:
        """Wait for the commit of all changes, and end the thread; called once."""
        self._closed = True
        # Without a change no thread is started: none can be when the interpreter ends.
        if self._used:
            end = ThreadEvent()
            self._calls.put(end)
            if not self._started:
                self._start()
            await end.wait()

    def _start(self) -> None:
        # A signal handler may come between these, and start another thread: that ends at once.
        _threads[self._running] = (os.getpid(), self._calls)
        arguments = (self._calls, self._commit, self._running)
        threading.Thread(target=_run, args=arguments, name="jazzmine-writer", daemon=True).start()
        self._started = True


def _run(calls: _Calls, commit: _Commit, running: threading.Lock) -> None:
    """Commit the changes of all that wait, again and again, until a mark ends the thread."""
    if not running.acquire(blocking=False):
        return
    received: list[Change[Any] | _Mark] = []
    waiting: list[Change[Any]] = []
    marks: list[_Mark] = []
    attempt = 0
    try:
        while True:
            if not waiting:
                attempt = 0
                received.append(calls.get())
            while not calls.empty():
                received.append(calls.get())
            # No name of this function may keep a call, and with it the batcher.
            waiting += [item for item in received if isinstance(item, Change)]
            marks += [item for item in received if not isinstance(item, Change)]
            received.clear()
            waiting = _commit_all(waiting, commit)
            if waiting:
                time.sleep(_pause_after(attempt))
                attempt += 1
            elif marks:
                if not _set(marks):
                    return
                marks.clear()
    finally:
        _threads.pop(running, None)
        running.release()


def _set(marks: Sequence[_Mark]) -> bool:
    """Set the events; return whether the thread goes on."""
    for mark in marks:
        if isinstance(mark, threading.Event):
            mark.set()
        elif mark is not None:
            ThreadEvent.set_all([mark])
    return all(isinstance(mark, threading.Event) for mark in marks)


def _pause_after(attempt: int) -> float:
    if _PATIENT <= attempt < _IMPATIENT:
        return random.uniform(_SHORTEST_PAUSE / 2, _SHORTEST_PAUSE)
    longest = min(_SHORTEST_PAUSE * 1.5 ** min(attempt, 8), _LONGEST_PAUSE)
    return random.uniform(_SHORTEST_PAUSE / 2, longest)


def _commit_all(changes: Sequence[Change[Any]], commit: _Commit) -> list[Change[Any]]:
    """Commit changes, wake the calls of those that are done, and return the others."""
    waiting = [change for change in changes if not change.claimed]  # not withdrawn
    try:
        if waiting:
            commit(waiting)
    except (OSError, MemoryError) as error:
        claimed = [change for change in waiting if change.claimed and not change.withdrawn]
        if len(claimed) > 1:
            _commit_alone(claimed, commit, error)
        else:
            _fail(waiting, error)
    except BaseException as error:
        _fail(waiting, error)
    left, events = [], []
    for change in changes:
        if change.claimed:
            events.append(change.done)
        else:
            left.append(change)
    ThreadEvent.set_all(events)
    return left


def _commit_alone(changes: Sequence[Change[Any]], commit: _Commit, failure: BaseException) -> None:
    end = time.monotonic() + _ALONE
    for change in changes:
        if time.monotonic() > end:
            change.fail(failure)
            continue
        change.unclaim()
        try:
            commit([change])
        except BaseException as error:
            change.fail(error)


def _fail(changes: Sequence[Change[Any]], error: BaseException) -> None:
    for change in changes:
        change.fail(error)


_threads: dict[threading.Lock, tuple[int, _Calls]] = {}


@atexit.register
def _finish() -> None:
    deadline = Deadline(_LAST_COMMITS)
    for process, calls in list(_threads.values()):
        if process == os.getpid():  # a forked process has none of its parent's threads
            # The thread goes on: another function that runs at the end may close the store.
            settled = threading.Event()
            calls.put(settled)
            settled.wait(deadline.remaining())
