"""The states that a process has read or saved last."""

from __future__ import annotations

import threading

from jazzmine.records.stored_memory import Stored

__all__ = ["KnownStates"]

# The length of the JSON of the states together; the records take ten times as much memory. The
# state itself is no shorter than the least.
_BYTES_KEPT, _LEAST = 8 << 20, 4 << 10


class KnownStates:
    """Keeps the newest states, each with its working memory, so that a change need not read."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[Stored, int]] = {}  # with its length, the oldest first
        self._bytes = 0
        self._mutex = threading.RLock()

    def get(self, conversation_id: str) -> Stored | None:
        """Return what was stored for a conversation when it was read or saved last, if known."""
        stored, _ = self._states.get(conversation_id, (None, 0))
        return stored

    def keep(self, conversation_id: str, stored: Stored, size: int) -> None:
        """Keep what is stored, whose JSON is `size` bytes long; forget the oldest of too many."""
        size = max(size, _LEAST)
        with self._mutex:
            _, before = self._states.pop(conversation_id, (None, 0))
            self._states[conversation_id] = stored, size
            self._bytes += size - before
            while self._bytes > _BYTES_KEPT and len(self._states) > 1:
                self.forget(next(iter(self._states)))

    def forget(self, conversation_id: str) -> None:
        """Forget the state of a conversation."""
        with self._mutex:
            _, size = self._states.pop(conversation_id, (None, 0))
            self._bytes -= size
