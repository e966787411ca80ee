"""The blocking world: threads, which may be forked into other processes."""

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

_LOOK_AGAIN_SECONDS = 0.05


class Affinity:
    """Where a store may be used: in any thread, and in forked processes.

    Args:
        after_fork: called once in each process that was forked from the store's own, before
            anything else is done there: what it inherited belongs to its parent.
    """

    def __init__(self, after_fork: Callable[[], None] | None = None) -> None:
        self._after_fork = after_fork
        self._pid = os.getpid()
        self._moving = threading.Lock()

    def ensure(self) -> None:
        """Move in if this is another process than before."""
        if os.getpid() == self._pid:
            return
        with self._moving:
            if os.getpid() != self._pid:
                if self._after_fork is not None:
                    self._after_fork()
                self._pid = os.getpid()


def run_blocking(function: Callable[..., T], *args: Any) -> T:
    """Run a blocking function to its end."""
    return function(*args)


class Batcher(Generic[T]):
    """Commits changes in the order they came; those that come during a commit share the next.

    `unsettled` says that an interrupted call's change is being committed: what is read or
    written meanwhile waits for `settle()`, so that the change cannot take effect afterwards.

    Args:
        commit: a blocking function that claims each change and gives it a result or an
            error; it leaves those unclaimed that the next commit is to try. When it raises,
            its error is that of all changes that have none.
    """

    def __init__(self, commit: Callable[[Sequence[Change[T]]], None]) -> None:
        self.unsettled = False
        self._commit = commit
        self._waiting: list[Change[T]] = []
        self._mutex = threading.Lock()
        self._committing = threading.RLock()

    def run(self, apply: Callable[[T], Any]) -> Any:
        """Have a change committed, and return its result or raise its error.

        A call that is interrupted withdraws a change that no commit has begun with.
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
        """Wait for what is under way."""
        with self._committing:
            pass

    def _wait_or_commit(self, change: Change[T]) -> None:
        # The lock serves threads in no certain order: one whose change another thread has
        # committed must not wait until a third one has committed its own.
        try:
            if self._committing.acquire(timeout=_LOOK_AGAIN_SECONDS) and not change.done:
                self._commit_waiting()
        finally:
            # An interrupt may come right after the lock was taken: only the lock itself knows.
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
            # This thread is interrupted; the others' changes are still to be committed.
            for change in batch:
                change.reset()
            self._put_back(batch)
            raise
        self._put_back(batch)
        for change in batch:
            change.done = change.claimed

    def _put_back(self, batch: list[Change[T]]) -> None:
        left = [change for change in batch if not change.claimed]
        with self._mutex:
            self._waiting[:0] = left


class Condition(threading.Condition):
    """A condition that is waited for until a deadline."""

    def wait_until(self, deadline: Deadline) -> bool:
        """Wait for a notification; return False if none came before the deadline."""
        return self.wait(deadline.remaining())


class KeyedLocks:
    """A lock for each key; only keys in use take memory."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._locks: dict[str, tuple[threading.Lock, list[None]]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    def acquire(self, key: str, timeout: float) -> bool:
        """Take the key's lock; False if it was not free within `timeout` s."""
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
        """Let somebody else take the key's lock."""
        self._locks[key][0].release()
        self._leave(key)

    def _leave(self, key: str) -> None:
        with self._mutex:
            users = self._locks[key][1]
            users.pop()
            if not users:
                del self._locks[key]
