"""The working memory of one process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, fields
from typing import ClassVar

from jazzmine._async.working_memory.backend import (
    Again,
    Lock,
    Locked,
    Save,
    Stored,
    WorkingMemoryBackend,
    Written,
)
from jazzmine._async.working_memory.store import WorkingMemoryStore
from jazzmine.config import MemoryOptions, MemoryStoreConfig
from jazzmine.deadline import Deadline
from jazzmine.encryption import Keyring
from jazzmine.errors import StoreClosedError

__all__ = ["InMemoryWorkingMemoryStore", "MemoryBackend", "in_memory_store"]


class InMemoryWorkingMemoryStore(WorkingMemoryStore):
    """Working memories in this process; they end with it.

    The same values are refused as elsewhere, and no caller holds a part of what is stored:
    what the callers pass and get are copies.

    Args:
        lock_timeout: how long, in s, a call waits for a `locked` block.
        ttl_seconds: how long, in s, a working memory is kept after it was saved last.
        lease_seconds: as for other stores; a block ends with its process.
        timeout: how long, in s, a call may take; waiting for the lock counts.
        strict: whether a transition that does not apply raises, instead of logging a warning.
        encryption, encryption_accepts_plain: as `initialize` takes them.
    """

    def __init__(
        self,
        lock_timeout: float = 15.0,
        *,
        ttl_seconds: float = 3600.0,
        lease_seconds: float = 10.0,
        timeout: float = 30.0,
        strict: bool = False,
        encryption: Keyring | str | None = None,
        encryption_accepts_plain: bool = False,
    ) -> None:
        config = MemoryOptions(
            ttl_seconds=ttl_seconds,
            lock_timeout=lock_timeout,
            lease_seconds=lease_seconds,
            timeout=timeout,
            strict=strict,
            encryption=encryption,
            encryption_accepts_plain=encryption_accepts_plain,
        )
        super().__init__(MemoryBackend(config.ttl_seconds), config)


def in_memory_store(config: MemoryStoreConfig) -> InMemoryWorkingMemoryStore:
    """Return the store of a configuration."""
    names = (option.name for option in fields(MemoryOptions))
    return InMemoryWorkingMemoryStore(**{name: getattr(config, name) for name in names})


@dataclass(eq=False)
class _Kept:
    """A working memory, and when (on the monotonic clock) it expires."""

    stored: Stored
    expires_at: float


class MemoryBackend(WorkingMemoryBackend):
    """The working memories of a process, which are replaced as a whole and never changed.

    The store lets the calls of a conversation wait for each other, so there is nothing to do for
    locks, and nothing is given up halfway: only the mark of the last save is kept. Ctrl-C may come
    between any two of its lines: a state is in its new place before it leaves the old one.
    """

    system_name = "jazzmine.memory"
    is_in_process: ClassVar[bool] = True

    def __init__(self, ttl_seconds: float) -> None:
        self._ttl = ttl_seconds
        self._kept: OrderedDict[str, _Kept] = OrderedDict()  # in the order of expiry
        self._in_blocks: dict[str, Stored] = {}
        self._mutex = threading.Lock()
        self._closed = False

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        self._kept, self._closed = OrderedDict(), True

    async def ping(self) -> None:
        """Nothing to ask."""

    async def load(
        self, conversation_id: str, deadline: Deadline, *, renew: bool = False
    ) -> Stored:
        with self._mutex:
            stored = self._current(conversation_id)
            if renew and conversation_id in self._kept:
                self._renew(conversation_id)
        return stored

    async def write(
        self, save: Save, again: Again, deadline: Deadline
    ) -> Written | Locked | Stored:
        conversation_id = save.conversation_id
        with self._mutex:
            stored = self._current(conversation_id)
            if stored.mark != save.read_mark:
                return stored
            if save.data is None:
                self._kept.pop(conversation_id, None)
            else:
                self._keep(conversation_id, Stored(save.mark, save.data, save.user_id))
            self._in_blocks.pop(conversation_id, None)
        return Written()

    async def lock(self, lock: Lock, deadline: Deadline) -> Stored | Locked:
        conversation_id = lock.conversation_id
        with self._mutex:
            stored = self._current(conversation_id)
            if stored.mark:
                # A block ends with this process: until then its state does not expire.
                self._in_blocks[conversation_id] = stored
                self._kept.pop(conversation_id, None)
        return stored

    async def unlock(self, conversation_id: str, token: str, deadline: Deadline) -> None:
        with self._mutex:
            stored = self._in_blocks.get(conversation_id)
            if stored is not None and conversation_id not in self._kept:
                self._keep(conversation_id, stored)
            self._in_blocks.pop(conversation_id, None)

    async def conversations(self, deadline: Deadline, user_id: str | None = None) -> list[str]:
        with self._mutex:
            self._drop_expired()
            stored = {key: kept.stored for key, kept in self._kept.items()} | self._in_blocks
        return [key for key, each in stored.items() if user_id in (None, each.user_id)]

    async def sample(self, limit: int, deadline: Deadline) -> list[str]:
        return (await self.conversations(deadline))[:limit]

    async def replace(
        self, conversation_id: str, stored: Stored, data: bytes, number: int, deadline: Deadline
    ) -> bool:
        with self._mutex:
            kept = self._kept.get(conversation_id)
            if kept is None or kept.stored != stored:
                return False
            kept.stored = stored._replace(data=data)
        return True

    async def count(self, deadline: Deadline) -> int:
        return len(await self.conversations(deadline))

    def _current(self, conversation_id: str) -> Stored:
        if self._closed:  # while this call was under way
            raise StoreClosedError("this store is closed; open another with initialize()")
        self._drop_expired()
        kept = self._kept.get(conversation_id)
        return kept.stored if kept else self._in_blocks.get(conversation_id, Stored())

    def _keep(self, conversation_id: str, stored: Stored) -> None:
        """Store a working memory for its whole time to live, after all others."""
        self._kept[conversation_id] = _Kept(stored, time.monotonic() + self._ttl)
        self._kept.move_to_end(conversation_id)

    def _renew(self, conversation_id: str) -> None:
        """Begin the time to live of what is stored anew."""
        self._kept[conversation_id].expires_at = time.monotonic() + self._ttl
        self._kept.move_to_end(conversation_id)

    def _drop_expired(self) -> None:
        now = time.monotonic()
        while self._kept and next(iter(self._kept.values())).expires_at <= now:
            self._kept.popitem(last=False)
