"""What a store remembers of the server, and of what it is doing there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from threading import Lock

__all__ = ["Overlaps", "Remembered"]


class Remembered:
    """A bounded set of the ids of stored conversations, which forgets the oldest first.

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


class Overlaps:
    """Which ids are written under or deleted at the moment, so that none is both.

    A write that knows its conversation does not look whether it is still there, so it must
    not run beside the deletion; writes beside each other are no matter.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._written: Counter[str] = Counter()
        self._deleted: set[str] = set()

    def begin_writing(self, ids: Collection[str]) -> bool:
        """Begin to write under ids, unless one of them is being deleted."""
        with self._lock:
            if not self._deleted.isdisjoint(ids):
                return False
            self._written.update(ids)
            return True

    def end_writing(self, ids: Collection[str]) -> None:
        """End what `begin_writing` began."""
        with self._lock:
            for written in ids:
                self._written[written] -= 1
                if not self._written[written]:
                    del self._written[written]

    def begin_deleting(self, deleted: str) -> bool:
        """Begin to delete, unless somebody else does: no write begins from now on."""
        with self._lock:
            if deleted in self._deleted:
                return False
            self._deleted.add(deleted)
            return True

    def is_unwritten(self, deleted: str) -> bool:
        """Whether every write has ended."""
        return deleted not in self._written

    def end_deleting(self, deleted: str) -> None:
        """End what `begin_deleting` began."""
        with self._lock:
            self._deleted.discard(deleted)
