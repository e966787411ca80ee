"""The working memory of one process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import NamedTuple

from jazzmine._sync.keyed_locks import KeyedLocks
from jazzmine._sync.working_memory.base import WorkingMemoryStore
from jazzmine._sync.working_memory.hooks import Lease
from jazzmine.config import MemoryStoreConfig, require_seconds
from jazzmine.errors import LockLostError, LockTimeoutError
from jazzmine.records.memory_copy import deep_copy, partial_copy
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["InMemoryWorkingMemoryStore"]


class _Stored(NamedTuple):
    """A working memory, and when (on the monotonic clock) it expires."""

    memory: WorkingMemory
    expires_at: float


class InMemoryWorkingMemoryStore(WorkingMemoryStore):
    """Working memories in this process; they end with it.

    The same values are refused as elsewhere, and no caller holds a part of what is stored:
    what the callers pass and get are copies.

    Args:
        lock_timeout: how long, in s, an update waits for the conversation's lock.
        ttl_seconds: how long, in s, a working memory is kept after it was saved last.
        timeout: how long, in s, a call may take; waiting for the lock counts.
    """

    _system_name = "jazzmine.memory"

    def __init__(
        self, lock_timeout: float = 15.0, *, ttl_seconds: float = 3600.0, timeout: float = 30.0
    ) -> None:
        super().__init__()
        for name, value in (
            ("lock_timeout", lock_timeout),
            ("ttl_seconds", ttl_seconds),
            ("timeout", timeout),
        ):
            require_seconds(name, value)
        self._longest_wait = min(lock_timeout, timeout)
        self._ttl = ttl_seconds
        # In the order of expiry. The memories are replaced as a whole, never changed: they
        # can be read without the conversation's lock.
        self._stored: OrderedDict[str, _Stored] = OrderedDict()
        self._after_fork()

    @classmethod
    def _configured(cls, config: MemoryStoreConfig) -> InMemoryWorkingMemoryStore:
        return cls(config.lock_timeout, ttl_seconds=config.ttl_seconds, timeout=config.timeout)

    def _open(self) -> None:
        """Nothing to open."""

    def _close(self) -> None:
        self._stored.clear()

    def _after_fork(self) -> None:
        # What the parent's threads held when it forked is held for ever in the child.
        self._locks: KeyedLocks[Lease] = KeyedLocks()
        self._guard = threading.Lock()  # of `_stored`, held for a few instructions at a time

    def _ping(self) -> None:
        """Nothing to ask."""

    def _load(self, conversation_id: str, *, renew: bool = False) -> WorkingMemory | None:
        with self._guard:
            stored = self._current(conversation_id)
            if renew and stored is not None:
                self._keep(conversation_id, stored)
        return None if stored is None else deep_copy(stored)

    def _acquire(self, lease: Lease) -> None:
        if not self._locks.acquire(lease.conversation_id, lease, self._longest_wait):
            raise LockTimeoutError(
                f"the lock of conversation {lease.conversation_id!r} was not free within"
                f" {self._longest_wait:g} s; in a locked() block use the methods of its working"
                " memory, not the store's"
            )
        with self._guard:
            stored = self._current(lease.conversation_id)
        lease.memory = None if stored is None else partial_copy(stored)

    def _save_and_release(self, lease: Lease, memory: WorkingMemory) -> None:
        self._require_held(lease)
        with self._guard:
            self._keep(lease.conversation_id, memory)
        self._release(lease)

    def _release(self, lease: Lease) -> None:
        self._locks.release(lease.conversation_id, lease)

    def _delete(self, lease: Lease) -> bool:
        self._require_held(lease)
        with self._guard:
            was_there = self._current(lease.conversation_id) is not None
            self._stored.pop(lease.conversation_id, None)
        self._release(lease)
        return was_there

    def _count(self) -> int:
        with self._guard:
            self._drop_expired()
            return len(self._stored)

    def _conversations_of(self, user_id: str) -> list[str]:
        with self._guard:
            self._drop_expired()
            return [one for one, kept in self._stored.items() if kept.memory.user_id == user_id]

    def _erase(self, conversation_id: str, user_id: str) -> int:
        lease = Lease(conversation_id)
        try:
            self._acquire(lease)
            if lease.memory is not None and lease.memory.user_id == user_id:
                return int(self._delete(lease))
            return 0
        finally:
            self._release(lease)

    def _current(self, conversation_id: str) -> WorkingMemory | None:
        stored = self._stored.get(conversation_id)
        if stored is None or stored.expires_at <= time.monotonic():
            return None
        return stored.memory

    def _keep(self, conversation_id: str, memory: WorkingMemory) -> None:
        """Store a working memory for its whole time to live, after all others."""
        self._drop_expired()
        # In two steps that leave a working memory there, if the call is interrupted between them.
        self._stored[conversation_id] = _Stored(memory, time.monotonic() + self._ttl)
        self._stored.move_to_end(conversation_id)

    def _drop_expired(self) -> None:
        now = time.monotonic()
        while self._stored:
            oldest = next(iter(self._stored))
            if self._stored[oldest].expires_at > now:
                return
            del self._stored[oldest]

    def _require_held(self, lease: Lease) -> None:
        if not self._locks.is_held(lease.conversation_id, lease):
            raise LockLostError(
                f"the lock of conversation {lease.conversation_id!r} is no longer held, and"
                " nothing was written"
            )
