"""The working memory of one process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from jazzmine._async.working_memory.backend import (
    Again,
    Lock,
    Locked,
    Mark,
    Owned,
    Save,
    Stored,
    WorkingMemoryBackend,
    Written,
)
from jazzmine._async.working_memory.store import WorkingMemoryStore
from jazzmine.config import MemoryOptions, MemoryStoreConfig
from jazzmine.deadline import Deadline
from jazzmine.encryption import Keyring

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
    return InMemoryWorkingMemoryStore(**vars(config))


@dataclass(eq=False)
class _Kept:
    """A working memory, and when (on the monotonic clock) it expires."""

    stored: Stored
    expires_at: float


class MemoryBackend(WorkingMemoryBackend):
    """The working memories of a process, which are replaced as a whole and never changed.

    The store lets the calls of a conversation wait for each other, so there is nothing to do for
    locks, and nothing is given up halfway: there are no numbers and no tombstones.
    """

    system_name = "jazzmine.memory"
    locks_expire: ClassVar[bool] = False

    def __init__(self, ttl_seconds: float) -> None:
        self._ttl = ttl_seconds
        self._kept: OrderedDict[str, _Kept] = OrderedDict()  # in the order of expiry
        self.after_fork()

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        self._kept = OrderedDict()

    def after_fork(self) -> None:
        # What the parent's threads held when it forked is held for ever in the child.
        # Held for a few instructions at a time; a signal handler may call the store between two.
        self._mutex = threading.RLock()

    async def ping(self) -> None:
        """Nothing to ask."""

    async def load(
        self,
        conversation_id: str,
        deadline: Deadline,
        *,
        taken_back: Mark | None = None,
        renew: bool = False,
    ) -> Stored:
        with self._mutex:
            stored = self._current(conversation_id)
            if renew and stored.exists:
                self._renew(conversation_id)
        return stored

    async def write(
        self, save: Save, again: Again, deadline: Deadline
    ) -> Written | Locked | Stored:
        memory, conversation_id = save.memory, save.conversation_id
        with self._mutex:
            stored = self._current(conversation_id)
            if stored.mark != save.read_mark:
                return stored
            if memory is None:
                self._kept.pop(conversation_id, None)
            else:
                data = memory if save.form.keyring is None else save.data
                self._keep(conversation_id, Stored(str(save.mark), data, memory.user_id))
        return Written()

    async def lock(self, lock: Lock, deadline: Deadline) -> Stored | Locked:
        return await self.load(lock.conversation_id, deadline)

    async def set_aside(self, conversation_id: str, mark: str, deadline: Deadline) -> str:
        raise AssertionError("a working memory that is not parsed can be read")

    async def conversations(self, deadline: Deadline) -> list[str]:
        with self._mutex:
            self._drop_expired()
            return list(self._kept)

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
        with self._mutex:
            self._drop_expired()
            return len(self._kept)

    async def owned_by(self, user_id: str, deadline: Deadline) -> Owned:
        with self._mutex:
            self._drop_expired()
            kept = self._kept.items()
            return Owned([key for key, state in kept if state.stored.user_id == user_id], [])

    async def erase_leftovers(
        self, user_id: str, conversation_ids: Sequence[str], deadline: Deadline
    ) -> None:
        """Nothing is set aside, and nothing that has expired is kept."""

    def _current(self, conversation_id: str) -> Stored:
        kept = self._kept.get(conversation_id)
        if kept is None or kept.expires_at <= time.monotonic():
            return Stored()
        return kept.stored

    def _keep(self, conversation_id: str, stored: Stored) -> None:
        """Store a working memory for its whole time to live, after all others."""
        self._drop_expired()
        # In two steps that leave a working memory there, if the call is interrupted between them.
        self._kept[conversation_id] = _Kept(stored, time.monotonic() + self._ttl)
        with suppress(KeyError):  # a signal handler has closed the store
            self._kept.move_to_end(conversation_id)

    def _renew(self, conversation_id: str) -> None:
        """Begin the time to live of what is stored anew."""
        with suppress(KeyError):
            self._kept[conversation_id].expires_at = time.monotonic() + self._ttl
            self._kept.move_to_end(conversation_id)

    def _drop_expired(self) -> None:
        now = time.monotonic()
        with suppress(RuntimeError):  # a signal handler has changed it meanwhile: the next call
            while (oldest := next(iter(self._kept.items()), None)) and oldest[1].expires_at <= now:
                self._kept.pop(oldest[0], None)
