"""A lock for each of many keys."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

from jazzmine._compat.concurrency import SyncEvent as Event

T = TypeVar("T")


class KeyedLocks(Generic[T]):
    """A lock for each key, acquired in the order of the calls; unused keys take no memory.

    Each call names itself as the owner, so that it can release a lock that it may have acquired
    before an interruption.
    """

    def __init__(self) -> None:
        self._mutex = threading.RLock()  # the garbage collector may end a call, which releases
        # The first owner of a queue has the lock; one that had to wait for it has an event.
        self._queues: dict[str, dict[T, Event | None]] = {}

    def try_acquire(self, key: str, owner: T) -> bool:
        """Acquire the lock of a key if it is free."""
        with self._mutex:
            return owner in self._queues.setdefault(key, {owner: None})

    def acquire(self, key: str, owner: T, timeout: float) -> bool:
        """Acquire the lock of a key; return False if it was not free within `timeout` s.

        The owner must be released in the end in any case. After False it keeps its place, and may
        wait again.
        """
        with self._mutex:
            turn = Event()
            queue = self._queues.setdefault(key, {})
            queue[owner] = turn
            if next(iter(queue)) == owner:
                return True
        return turn.wait(timeout)

    def release(self, key: str, owner: T) -> None:
        """Release the lock of a key, or stop waiting for it; this may be repeated."""
        with self._mutex:
            queue = self._queues.get(key, {})
            queue.pop(owner, None)
            if not queue:
                self._queues.pop(key, None)
            elif (turn := next(iter(queue.values()))) is not None:
                turn.set()

    def holder(self, key: str) -> T | None:
        """Return the owner that has the lock of a key, if any."""
        with self._mutex:
            return next(iter(self._queues.get(key, ())), None)
