"""A lock for each of many keys."""

from __future__ import annotations

import threading
from collections import deque

from jazzmine._compat.async_concurrency import Event

__all__ = ["KeyedLocks"]


class KeyedLocks:
    """A lock for each key, acquired in the order of the calls; unused keys take no memory."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: dict[str, deque[Event]] = {}  # of each key whose lock is held

    def __len__(self) -> int:
        return len(self._waiting)

    async def acquire(self, key: str, timeout: float) -> bool:
        """Acquire the lock of a key; return False if it was not free within `timeout` s."""
        with self._mutex:
            waiting = self._waiting.get(key)
            if waiting is None:
                self._waiting[key] = deque()
                return True
            turn = Event()
            waiting.append(turn)
        try:
            await turn.wait(timeout)
        except BaseException:
            # The lock may have been passed to this call at the moment of the interruption.
            if self._leave(key, turn):
                self.release(key)
            raise
        return self._leave(key, turn)

    def release(self, key: str) -> None:
        """Release the lock of a key, for the call that has waited longest."""
        with self._mutex:
            waiting = self._waiting[key]
            if waiting:
                waiting.popleft().set()
            else:
                del self._waiting[key]

    def _leave(self, key: str, turn: Event) -> bool:
        """Stop waiting for a lock, and return whether it was acquired."""
        with self._mutex:
            if not turn.is_set():
                self._waiting[key].remove(turn)
            return turn.is_set()
