"""The working memory of one process."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from typing import ClassVar, Unpack

from jazzmine._sync.working_memory.backend import Again, WorkingMemoryBackend
from jazzmine._sync.working_memory.store import WorkingMemoryStore
from jazzmine.config import MemoryOptions, MemoryStoreConfig, MoreMemoryOptions
from jazzmine.deadline import Deadline
from jazzmine.errors import StoreClosedError
from jazzmine.records.stored_memory import Lock, Locked, Save, Stored


class InMemoryWorkingMemoryStore(WorkingMemoryStore):
    """Working memories in this process; they end with it.

    Args:
        lock_timeout: how long, in s, a call waits for a `locked` block.
        ttl_seconds: how long, in s, a working memory is kept after it was saved last.
        options: the others of `initialize`, such as `strict`.
    """

    def __init__(
        self,
        lock_timeout: float = 15.0,
        *,
        ttl_seconds: float = 3600.0,
        **options: Unpack[MoreMemoryOptions],
    ) -> None:
        config = MemoryOptions(ttl_seconds=ttl_seconds, lock_timeout=lock_timeout, **options)
        super().__init__(MemoryBackend(config.ttl_seconds), config)


def in_memory_store(config: MemoryStoreConfig) -> InMemoryWorkingMemoryStore:
    """Return the store of a configuration."""
    options = {**vars(config)}
    del options["search"]  # an option of message stores
    return InMemoryWorkingMemoryStore(**options)


class MemoryBackend(WorkingMemoryBackend):
    """The working memories of a process, which are replaced as a whole and never changed.

    The store lets the calls of a conversation wait for each other, so there is nothing to do for
    locks, and nothing is given up halfway: only the mark of the last save is kept.
    """

    system_name = "jazzmine.memory"
    is_in_process: ClassVar[bool] = True

    def __init__(self, ttl_seconds: float) -> None:
        self._ttl = ttl_seconds
        # Each with the time when it expires, on the monotonic clock; those saved last at the end.
        self._kept: OrderedDict[str, tuple[Stored, float]] = OrderedDict()
        self._mutex = threading.Lock()
        self._closed = False

    def open(self) -> None:
        pass

    def close(self) -> None:
        self._kept, self._closed = OrderedDict(), True

    def ping(self) -> None:
        pass

    def pending(self) -> list[str]:
        return []

    def load(
        self, conversation_id: str, deadline: Deadline, *, renew: bool = False
    ) -> Stored:
        with self._mutex:
            stored, expires_at = self._current(conversation_id)
            if renew and expires_at < math.inf:
                self._keep(conversation_id, stored, self._ttl)
        return stored

    def write(self, save: Save, again: Again, deadline: Deadline) -> Save | Locked | Stored:
        with self._mutex:
            stored, _ = self._current(save.conversation_id)
            if stored.mark != save.read_mark:
                return stored
            new = Stored(save.mark, save.data, save.user_id)
            self._keep(save.conversation_id, new, self._ttl if save.data else -math.inf)
        return save

    def lock(self, lock: Lock, deadline: Deadline) -> Stored | Locked:
        with self._mutex:
            stored, _ = self._current(lock.conversation_id)
            # A block ends with this process: until then its state does not expire.
            self._keep(lock.conversation_id, stored, math.inf if lock.seconds else self._ttl)
        return stored

    def conversations(
        self, deadline: Deadline, user_id: str | None = None, limit: int | None = None
    ) -> list[str]:
        now = time.monotonic()
        with self._mutex:
            kept = list(self._kept.items())
        alive = [
            conversation_id
            for conversation_id, (stored, expires_at) in kept
            if expires_at > now and user_id in (None, stored.user_id)
        ]
        return alive[:limit]

    def _current(self, conversation_id: str) -> tuple[Stored, float]:
        """Return what is stored, and when it expires."""
        if self._closed:  # while this call was under way
            raise StoreClosedError("this store is closed; open another with initialize()")
        stored, expires_at = self._kept.get(conversation_id, (Stored(), math.inf))
        return (stored, expires_at) if expires_at > time.monotonic() else (Stored(), math.inf)

    def _keep(self, conversation_id: str, stored: Stored, seconds: float) -> None:
        """Store what is stored for so long, and drop what has expired.

        Ctrl-C may come between any two lines.
        """
        now = time.monotonic()
        if stored.mark:
            self._kept[conversation_id] = stored, now + seconds
            self._kept.move_to_end(conversation_id, last=seconds > 0)
        while self._kept and next(iter(self._kept.values()))[1] <= now:
            self._kept.popitem(last=False)
