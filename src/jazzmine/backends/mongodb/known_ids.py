"""The ids of stored records, which a store need not look up again."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

__all__ = ["KnownIds"]


class KnownIds:
    """A bounded set of the ids of stored records, which drops the oldest first.

    Read `changes` before the query or the write, and pass it to `remember()`: it does nothing
    if an id was forgotten in between, because that id was deleted.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._ids: dict[str, None] = {}
        self._lock = Lock()
        self.changes: int = 0

    def unknown(self, ids: Iterable[str]) -> list[str]:
        """Return the ids that are not in the set, each once."""
        return [record_id for record_id in dict.fromkeys(ids) if record_id not in self._ids]

    def remember(self, ids: Iterable[str], changes: int) -> None:
        """Add ids, unless `changes` has another value now, because an id was forgotten."""
        with self._lock:
            if changes == self.changes:
                self._ids.update(dict.fromkeys(ids))
                while len(self._ids) > self._max_size:
                    del self._ids[next(iter(self._ids))]

    def forget(self, ids: Iterable[str]) -> None:
        """Remove ids."""
        with self._lock:
            self.changes += 1
            for record_id in ids:
                self._ids.pop(record_id, None)
