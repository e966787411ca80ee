"""A lock for each of many keys."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

from jazzmine._compat.sync_concurrency import Event

__all__ = ["KeyedLocks"]

T = TypeVar("T")


class KeyedLocks(Generic[T]):
    """A lock for each key, acquired in the order of the calls; unused keys take no memory.

    Each call names itself as the owner, so that it can release what it may or may not have
    acquired: it may have been interrupted between any two steps.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._queues: dict[str, dict[T, Event]] = {}  # the first owner of a queue has the lock

    def __len__(self) -> int:
        return len(self._queues)

    def acquire(self, key: str, owner: T, timeout: float) -> bool:
        """Acquire the lock of a key; return False if it was not free within `timeout` s.

        Whatever becomes of it, the owner must be released in the end.
        """
        turn = Event()
        with self._mutex:
            queue = self._queues.setdefault(key, {})
            queue[owner] = turn
            if len(queue) == 1:
                return True
        return turn.wait(timeout)

    def release(self, key: str, owner: T) -> None:
        """Release the lock of a key, or stop waiting for it; this may be repeated."""
        with self._mutex:
            queue = self._queues.get(key, {})
            queue.pop(owner, None)
            if queue:
                next(iter(queue.values())).set()
            else:
                self._queues.pop(key, None)

    def is_held(self, key: str, owner: T) -> bool:
        """Return whether an owner has the lock of a key."""
        with self._mutex:
            return next(iter(self._queues.get(key, ())), None) is owner

    def holders(self) -> list[T]:
        """Return the owners that have the lock of a key."""
        with self._mutex:
            return [next(iter(queue)) for queue in self._queues.values()]
