"""The working memory of one process."""

from __future__ import annotations

from itertools import count

from jazzmine._async.working_memory.base import Lease, WorkingMemoryStore
from jazzmine._compat.aio import KeyedLocks
from jazzmine.errors import LockTimeoutError
from jazzmine.records.memory_copy import deep_copy, draft
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["InMemoryWorkingMemoryStore"]


class InMemoryWorkingMemoryStore(WorkingMemoryStore):
    """Working memories in this process; they end with it.

    The same values are refused as elsewhere, and nobody holds a part of what is stored: what
    the callers pass and get are copies.

    Args:
        lock_timeout: how long, in s, an update waits for the conversation's lock.
    """

    def __init__(self, lock_timeout: float = 15.0) -> None:
        super().__init__()
        self._lock_timeout = lock_timeout
        # What is stored is replaced as a whole, never changed: it can be read without the lock.
        self._stored: dict[str, WorkingMemory] = {}
        self._locks = KeyedLocks()
        self._holders: dict[str, str] = {}
        self._tokens = count()

    async def _open(self) -> None:
        """Nothing to open."""

    async def _close(self) -> None:
        self._stored.clear()

    def _moved_in(self) -> None:
        # What the parent's threads held when it forked is held for ever in the child.
        self._locks = KeyedLocks()
        self._holders.clear()

    async def _load(self, conversation_id: str, *, renew: bool = False) -> WorkingMemory | None:
        stored = self._stored.get(conversation_id)
        return None if stored is None else deep_copy(stored)

    async def _acquire(self, cid: str) -> Lease:
        if not await self._locks.acquire(cid, self._lock_timeout):
            raise LockTimeoutError(
                f"the lock of conversation {cid!r} was not free within {self._lock_timeout:g} s;"
                " in a locked() block use the methods of its working memory, not the store's"
            )
        token = self._holders[cid] = str(next(self._tokens))
        lease = Lease(cid, token, None)
        try:
            stored = self._stored.get(cid)
            return lease if stored is None else lease._replace(memory=draft(stored))
        except BaseException:
            await self._release(lease)
            raise

    async def _save_and_release(self, lease: Lease, memory: WorkingMemory) -> None:
        self._stored[lease.cid] = memory
        await self._release(lease)

    def _given_away(self, memory: WorkingMemory) -> WorkingMemory:
        return deep_copy(memory)

    async def _release(self, lease: Lease) -> None:
        if self._holders.get(lease.cid) == lease.token:
            del self._holders[lease.cid]
            self._locks.release(lease.cid)

    async def _delete(self, lease: Lease) -> bool:
        was_there = self._stored.pop(lease.cid, None) is not None
        await self._release(lease)
        return was_there

    async def _count(self) -> int:
        return len(self._stored)
