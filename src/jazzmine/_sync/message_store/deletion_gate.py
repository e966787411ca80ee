"""Keeps the writes of a store from running at the same time as its deletions."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection

from jazzmine._compat.sync_concurrency import Event
from jazzmine.deadline import Deadline

__all__ = ["DeletionGate"]


class DeletionGate:
    """The ids that are being written to, and those that are being deleted.

    A write to a known conversation does not check that the conversation still exists, so it
    must not run while the conversation is being deleted. Writes may run at the same time.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._changed: Event | None = None  # if a call waits for the next change
        self._written: Counter[str] = Counter()
        self._deleted: set[str] = set()

    def begin_writing(self, ids: Collection[str], deadline: Deadline) -> bool:
        """Wait until none of the ids is being deleted, and begin a write; False at the deadline."""

        def attempt() -> bool:
            free = self._deleted.isdisjoint(ids)
            if free:
                self._written.update(ids)
            return free

        return self._wait_for(attempt, deadline)

    def end_writing(self, ids: Collection[str]) -> None:
        """End a write."""
        with self._mutex:
            self._written.subtract(ids)
            for written in set(ids):
                if not self._written[written]:
                    del self._written[written]
            self._notify()

    def begin_deleting(self, ids: Collection[str], deadline: Deadline) -> bool:
        """Wait for writes and deletions of the ids, and begin a deletion; False at the deadline.

        No write of one of the ids begins from now on.
        """

        def attempt() -> bool:
            free = self._deleted.isdisjoint(ids)
            if free:
                self._deleted.update(ids)
            return free

        if not self._wait_for(attempt, deadline):
            return False
        ready = False
        try:
            ready = self._wait_for(lambda: self._written.keys().isdisjoint(ids), deadline)
        finally:
            if not ready:
                self.end_deleting(ids)
        return ready

    def end_deleting(self, ids: Collection[str]) -> None:
        """End a deletion."""
        with self._mutex:
            self._deleted.difference_update(ids)
            self._notify()

    def _wait_for(self, attempt: Callable[[], bool], deadline: Deadline) -> bool:
        """Make an attempt after each change until one succeeds; return False at the deadline."""
        while True:
            with self._mutex:
                if attempt():
                    return True
                changed = self._changed = self._changed or Event()
            if not changed.wait(deadline.remaining()):
                return False

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None
