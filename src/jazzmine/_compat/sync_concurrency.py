"""Concurrency of the sync API: threads, in processes that may be forked."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeAlias, TypeVar

from jazzmine.backends.json.change import Change
from jazzmine.deadline import Deadline

__all__ = ["Affinity", "Batcher", "Condition", "KeyedLocks", "Work", "run_blocking"]

T = TypeVar("T")

Work: TypeAlias = Callable[..., T]

_POLL_SECONDS = 0.05


class Affinity:
    """Lets a store be used in any thread, and resets it in a forked process.

    Args:
        after_fork: called once in each forked process before the store is used there, to drop
            the connections and files that belong to the parent.
    """

    def __init__(self, after_fork: Callable[[], None] | None = None) -> None:
        self._after_fork = after_fork
        self._pid = os.getpid()
        self._resetting = threading.Lock()

    def ensure(self) -> None:
        """Call `after_fork` if this is another process than at the last call."""
        if os.getpid() == self._pid:
            return
        with self._resetting:
            if os.getpid() != self._pid:
                if self._after_fork is not None:
                    self._after_fork()
                self._pid = os.getpid()


def run_blocking(function: Callable[..., T], *args: Any) -> T:
    """Run a blocking function to its end."""
    return function(*args)


class Batcher(Generic[T]):
    """Commits changes in order; those that arrive during a commit are committed together next.

    `unsettled` is True while the change of an interrupted call is being committed: reads and
    writes then wait for `settle()`, so that the change cannot take effect after them.

    Args:
        commit: a blocking function that claims each change and sets its result or error. It
            leaves a change unclaimed that the next commit shall try. If it raises, its error
            becomes the error of all changes without one.
    """

    def __init__(self, commit: Callable[[Sequence[Change[T]]], None]) -> None:
        self.unsettled = False
        self._commit = commit
        self._waiting: list[Change[T]] = []
        self._mutex = threading.Lock()
        self._committing = threading.RLock()

    def run(self, apply: Callable[[T], Any]) -> Any:
        """Commit a change, and return its result or raise its error.

        An interrupted call withdraws its change unless a commit has claimed it.
        """
        change = Change(apply)
        with self._mutex:
            self._waiting.append(change)
        try:
            while not change.done:
                self._wait_or_commit(change)
        except BaseException:
            with self._mutex:
                if change in self._waiting:
                    self._waiting.remove(change)
            if not change.withdraw():
                self.unsettled = True
            raise
        return change.outcome()

    def settle(self) -> None:
        """Wait for the commit of changes whose calls were interrupted."""
        with self._committing:
            self.unsettled = False

    def close(self) -> None:
        """Wait for the running commit."""
        with self._committing:
            pass

    def _wait_or_commit(self, change: Change[T]) -> None:
        # Threads acquire the lock in no certain order: a thread whose change was committed by
        # another one must not wait for the commit of a third one.
        try:
            if self._committing.acquire(timeout=_POLL_SECONDS) and not change.done:
                self._commit_waiting()
        finally:
            # An interrupt may come right after `acquire`, before its result is known here.
            with suppress(RuntimeError):
                self._committing.release()

    def _commit_waiting(self) -> None:
        with self._mutex:
            batch, self._waiting = self._waiting, []
        try:
            self._commit(batch)
        except Exception as failure:
            for change in batch:
                change.fail(failure)
        except BaseException:
            # This thread is interrupted; the changes of the others must still be committed.
            for change in batch:
                change.reset()
            self._put_back(batch)
            raise
        self._put_back(batch)
        for change in batch:
            change.done = change.claimed

    def _put_back(self, batch: list[Change[T]]) -> None:
        unclaimed = [change for change in batch if not change.claimed]
        with self._mutex:
            self._waiting[:0] = unclaimed


class Condition(threading.Condition):
    """A condition that is waited for until a deadline."""

    def wait_until(self, deadline: Deadline) -> bool:
        """Wait for a notification; return False if none came before the deadline."""
        return self.wait(deadline.remaining())


class KeyedLocks:
    """A lock for each key; unused keys take no memory."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._locks: dict[str, tuple[threading.Lock, list[None]]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    def acquire(self, key: str, timeout: float) -> bool:
        """Acquire the lock of a key; return False if it was not free within `timeout` s."""
        with self._mutex:
            lock, users = self._locks.setdefault(key, (threading.Lock(), []))
            users.append(None)
        acquired = False
        try:
            acquired = lock.acquire(timeout=min(timeout, threading.TIMEOUT_MAX))
        finally:
            if not acquired:
                self._leave(key)
        return acquired

    def release(self, key: str) -> None:
        """Release the lock of a key."""
        self._locks[key][0].release()
        self._leave(key)

    def _leave(self, key: str) -> None:
        with self._mutex:
            users = self._locks[key][1]
            users.pop()
            if not users:
                del self._locks[key]
