"""The states that a process has read or saved last."""

from __future__ import annotations

import threading

from jazzmine.records.stored_memory import Stored

__all__ = ["KnownStates"]

# The number of the states, and the length of their JSON together: the records take ten times as
# much memory.
_STATES_KEPT, _BYTES_KEPT = 1_000, 8 << 20


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
        """Keep what is stored for a conversation; forget the oldest of too many.

        Args:
            size: the length of its JSON.
        """
        with self._mutex:
            self.forget(conversation_id)
            self._states[conversation_id] = stored, size
            self._bytes += size
            while len(self._states) > (1 if self._bytes > _BYTES_KEPT else _STATES_KEPT):
                self.forget(next(iter(self._states)))

    def forget(self, conversation_id: str) -> None:
        """Forget the state of a conversation."""
        with self._mutex:
            _, size = self._states.pop(conversation_id, (None, 0))
            self._bytes -= size
