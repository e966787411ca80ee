"""Keeps the writes of a store apart from its deletions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from jazzmine._compat.sync_concurrency import Condition
from jazzmine.deadline import Deadline

__all__ = ["DeletionGate"]


class DeletionGate:
    """The ids under which records are being written, and those that are being deleted.

    A write to a known conversation does not look whether the conversation is still there, so
    it must not run while the conversation is deleted. Writes may run beside each other.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._written: Counter[str] = Counter()
        self._deleted: set[str] = set()

    def begin_writing(self, ids: Collection[str], deadline: Deadline) -> bool:
        """Begin a write when none of the ids is being deleted; False at the deadline."""
        with self._changed:
            while not self._deleted.isdisjoint(ids):
                if not self._changed.wait_until(deadline):
                    return False
            self._written.update(ids)
            return True

    def end_writing(self, ids: Collection[str]) -> None:
        """End a write that was begun."""
        with self._changed:
            self._written.subtract(ids)
            for written in set(ids):
                if not self._written[written]:
                    del self._written[written]
            self._changed.notify_all()

    def begin_deleting(self, deleted: str, deadline: Deadline) -> bool:
        """Begin a deletion when no other one and no write of the id runs; False at the deadline.

        From now on no write of the id begins.
        """
        with self._changed:
            while deleted in self._deleted:
                if not self._changed.wait_until(deadline):
                    return False
            self._deleted.add(deleted)
            try:
                while deleted in self._written:
                    if not self._changed.wait_until(deadline):
                        break
            except BaseException:
                self._end_deleting(deleted)
                raise
            if deleted in self._written:
                self._end_deleting(deleted)
                return False
            return True

    def end_deleting(self, deleted: str) -> None:
        """End a deletion that was begun."""
        with self._changed:
            self._end_deleting(deleted)

    def _end_deleting(self, deleted: str) -> None:
        self._deleted.discard(deleted)
        self._changed.notify_all()
