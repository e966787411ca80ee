"""Which conversations are known to be stored."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

__all__ = ["Remembered"]


class Remembered:
    """A bounded set of ids, which forgets the oldest first.

    Who asks the server notes `changes` before, and remembers under that: what was forgotten
    meanwhile was deleted, and stays forgotten.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._ids: dict[str, None] = {}
        self._lock = Lock()
        self.changes = 0

    def unknown(self, ids: Iterable[str]) -> list[str]:
        """Return those of the ids that are not remembered, each once."""
        return [wanted for wanted in dict.fromkeys(ids) if wanted not in self._ids]

    def remember(self, ids: Iterable[str], changes: int) -> None:
        """Add ids, unless some were forgotten since the number of `changes`."""
        with self._lock:
            if changes == self.changes:
                self._ids.update(dict.fromkeys(ids))
                while len(self._ids) > self._most:
                    del self._ids[next(iter(self._ids))]

    def forget(self, forgotten: str) -> None:
        """Remove an id."""
        with self._lock:
            self.changes += 1
            self._ids.pop(forgotten, None)
