"""The working memory of one process."""

from __future__ import annotations

from itertools import count

from jazzmine._async.working_memory.base import Lease, WorkingMemoryStore
from jazzmine._compat.aio import KeyedLocks
from jazzmine.errors import LockTimeoutError
from jazzmine.records.memory_json import from_own_json, to_json
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["InMemoryWorkingMemoryStore"]


class InMemoryWorkingMemoryStore(WorkingMemoryStore):
    """Working memories in this process; they end with it.

    What is kept is what another back end would keep, the state as JSON, so that the same
    values are refused, and nobody holds a part of what is stored.

    Args:
        lock_timeout: how long, in s, an update waits for the conversation's lock.
    """

    def __init__(self, lock_timeout: float = 15.0) -> None:
        super().__init__()
        self._lock_timeout = lock_timeout
        self._stored: dict[str, bytes] = {}
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

    async def _load(self, cid: str) -> WorkingMemory | None:
        stored = self._stored.get(cid)
        return None if stored is None else from_own_json(stored)

    async def _acquire(self, cid: str) -> Lease:
        if not await self._locks.acquire(cid, self._lock_timeout):
            raise LockTimeoutError(
                f"the lock of conversation {cid!r} was not free within {self._lock_timeout:g} s;"
                " in a locked() block use the methods of its working memory, not the store's"
            )
        token = self._holders[cid] = str(next(self._tokens))
        lease = Lease(cid, token, None)
        try:
            return lease._replace(memory=await self._load(cid))
        except BaseException:
            await self._release(lease)
            raise

    async def _save_and_release(self, lease: Lease, memory: WorkingMemory) -> None:
        self._stored[lease.cid] = to_json(memory)
        await self._release(lease)

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
