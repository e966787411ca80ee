"""A lock for each of many keys."""

from __future__ import annotations

import threading
from itertools import islice
from typing import Generic, TypeVar

from jazzmine._compat.concurrency import AsyncEvent as Event

__all__ = ["KeyedLocks"]

T = TypeVar("T")


class KeyedLocks(Generic[T]):
    """A lock for each key, acquired in the order of the calls; unused keys take no memory.

    Each call names itself as the owner, so that it can release a lock that it may have acquired
    before an interruption.

    Args:
        places: the number of owners that may have the lock of a key at a time.
    """

    def __init__(self, places: int = 1) -> None:
        self._mutex = threading.RLock()  # the garbage collector may end a call, which releases
        self._places = places
        # The first owners of a queue have the lock; one that had to wait for it has an event.
        self._queues: dict[str, dict[T, Event | None]] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def try_acquire(self, key: str, owner: T) -> bool:
        """Acquire the lock of a key if it is free."""
        with self._mutex:
            return owner in self._queues.setdefault(key, {owner: None})

    async def acquire(self, key: str, owner: T, timeout: float) -> bool:
        """Acquire the lock of a key; return False if it was not free within `timeout` s.

        The owner must be released in the end in any case. After False it keeps its place, and may
        wait again.
        """
        with self._mutex:
            turn = Event()
            queue = self._queues.setdefault(key, {})
            queue[owner] = turn
            if owner in islice(queue, self._places):
                return True
        return await turn.wait(timeout)

    def release(self, key: str, owner: T) -> None:
        """Release the lock of a key, or stop waiting for it; this may be repeated."""
        with self._mutex:
            queue = self._queues.get(key, {})
            queue.pop(owner, None)
            if len(queue) >= self._places:
                turn = next(islice(queue.values(), self._places - 1, None))
                if turn is not None:
                    turn.set()
            elif not queue:
                self._queues.pop(key, None)

    def owners(self, key: str) -> list[T]:
        """Return the owners that have the lock of a key, or wait for it."""
        with self._mutex:
            return list(self._queues.get(key, ()))

    def holder(self, key: str) -> T | None:
        """Return the owner that has the lock of a key, if any."""
        with self._mutex:
            return next(iter(self._queues.get(key, ())), None)

    def holders(self) -> list[T]:
        """Return the owners that have the lock of a key."""
        with self._mutex:
            return [owner for queue in list(self._queues.values()) for owner in islice(queue, 1)]
