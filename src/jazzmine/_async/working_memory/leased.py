"""What the stores have in common whose locks are kept by a server, for many processes."""

from __future__ import annotations

import logging
import math
import os
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import ClassVar, TypeAlias, TypeVar

from pydantic import ValidationError

from jazzmine._async.background import BackgroundTasks, Periodic
from jazzmine._async.keyed_locks import KeyedLocks
from jazzmine._async.working_memory.base import WorkingMemoryStore
from jazzmine._async.working_memory.hooks import Lease
from jazzmine._compat.async_concurrency import Event, sleep
from jazzmine.config import require_seconds
from jazzmine.deadline import Deadline, backoff
from jazzmine.errors import (
    LockLostError,
    LockTimeoutError,
    StoreClosedError,
    StoreUnavailableError,
)
from jazzmine.records.memory_copy import deep_copy, partial_copy
from jazzmine.records.memory_json import from_json, to_json
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["LeasedStoreBase", "Stored"]

logger: logging.Logger = logging.getLogger(__name__)

# What a server has for a conversation: the JSON, None for nothing, or, as text, why what is there
# is no JSON at all.
Stored: TypeAlias = "bytes | str | None"

T = TypeVar("T")

# A server keeps the result of a token for longer than any call repeats its request.
_RESULT_KEPT = 2

# Of how many conversations the last token is remembered, and the last state that was saved.
_TOKENS_KEPT, _STATES_KEPT = 1000, 100


class LeasedStoreBase(WorkingMemoryStore):
    """Working memories on a server, shared by all processes that use it.

    The lock of a conversation is a token on the server that expires: a write counts only while
    its token holds the lock. The calls of one process queue here, and only the first of them asks
    the server: an update is two round trips, `_take` and `_write`.

    Args:
        ttl_seconds: how long, in s, a working memory is kept after it was saved last.
        lock_timeout: how long, in s, an update waits for the conversation's lock, and how long
            the lock of a process that died blocks the others.
        timeout: how long, in s, a call may take, however often it repeats its requests.
    """

    # The first and the longest pause, in s, before a lock is tried for again without an event.
    _pauses: ClassVar[tuple[float, float]] = (0.02, 0.25)

    # How long, in s, the lock of a cancelled call is tried to be released, before it expires.
    _release_seconds: ClassVar[float] = math.inf

    def __init__(self, ttl_seconds: float, lock_timeout: float, timeout: float) -> None:
        super().__init__()
        require_seconds("ttl_seconds", ttl_seconds)
        require_seconds("lock_timeout", lock_timeout)
        require_seconds("timeout", timeout)
        self._ttl_seconds = ttl_seconds
        self._lock_timeout = lock_timeout
        self._timeout = timeout
        self._result_kept = _RESULT_KEPT * timeout
        self._forget_leases()

    # What a back end provides. Each hook but `_woken` is one round trip, and is safe to repeat:
    # the back end repeats it until the deadline, as the server may have done it all the same.

    @abstractmethod
    async def _fetch(self, conversation_id: str, deadline: Deadline, *, renew: bool) -> Stored:
        """Read without the lock; with `renew`, start the time to live anew in the same step."""

    @abstractmethod
    async def _take(self, lease: Lease) -> Stored | float:
        """Take the lock until `lock_timeout` from now, and read; or return when to try again.

        A token that holds the lock already keeps it. A lock of the token `lease.released` counts
        as free. A token that was released gets no lock, however late its request arrives.

        Returns:
            what is stored, or how long, in s, until the lock of another token expires.
        """

    @abstractmethod
    async def _write(self, lease: Lease, data: bytes, user_id: str) -> bool:
        """Write the JSON, start the time to live anew, and let the lock go.

        Returns:
            whether this token's JSON was written, now or at an earlier attempt; False if it lost
            the lock.
        """

    @abstractmethod
    async def _remove(self, lease: Lease) -> bool | None:
        """Delete what is stored, and let the lock go.

        Returns:
            whether there was anything, also at an earlier attempt; None if the lock was lost.
        """

    @abstractmethod
    async def _wipe(self, lease: Lease, user_id: str) -> int | None:
        """Delete what is stored, and what was moved aside, if it is a user's; let the lock go.

        Returns:
            how many were deleted, also at an earlier attempt; None if the lock was lost.
        """

    @abstractmethod
    async def _release_remote(self, lease: Lease, deadline: Deadline) -> None:
        """Let the lock go, and leave the queue; afterwards the token gets no lock any more."""

    @abstractmethod
    async def _extend(self, lease: Lease, deadline: Deadline) -> bool:
        """Have the lock last `lock_timeout` from now; False if this token lost it."""

    @abstractmethod
    async def _set_aside(self, conversation_id: str, data: bytes, deadline: Deadline) -> str:
        """Move away what is stored unless it is other data by now; return where it is.

        Args:
            data: what could not be read; empty if it was no JSON at all.
        """

    def _woken(self, lease: Lease) -> AbstractAsyncContextManager[Event | None]:
        """Have an event that is set, in a block, when it is worth while to try again.

        Without one (None) the lock is tried for with pauses that grow as `_pauses` says.
        """
        return nullcontext()

    # What is done with these, whatever the server

    def _after_fork(self) -> None:
        self._forget_leases()

    def _forget_leases(self) -> None:
        # The locks of a parent's threads are never released in a forked child.
        self._locks: KeyedLocks[Lease] = KeyedLocks()
        self._store_name, self._numbers = os.urandom(12).hex(), count(1)
        self._doubtful_tokens: dict[str, str] = {}  # they may hold a lock
        self._released_tokens: dict[str, str] = {}
        self._saved: dict[str, tuple[bytes, WorkingMemory]] = {}  # never changed, only replaced
        self._background_tasks = BackgroundTasks()

    async def _close(self) -> None:
        for lease in filter(self._is_held, self._locks.holders()):
            work = partial(self._release_in_background, lease, Deadline(1.0))
            self._background_tasks.start(work)
        await self._background_tasks.close(timeout=1.0)

    async def _load(self, conversation_id: str, *, renew: bool = False) -> WorkingMemory | None:
        deadline = Deadline(self._timeout)
        stored = await self._fetch(conversation_id, deadline, renew=renew)
        saved = self._last_saved(conversation_id, stored)
        if saved is not None:
            return deep_copy(saved)
        return await self._read(conversation_id, stored, deadline)

    async def _acquire(self, lease: Lease) -> None:
        stored = await self._lock(lease)
        saved = self._last_saved(lease.conversation_id, stored)
        if saved is not None:
            lease.memory = partial_copy(saved)
        else:
            lease.memory = await self._read(lease.conversation_id, stored, lease.deadline)

    async def _lock(self, lease: Lease) -> Stored:
        """Take the lock, and return what is stored, which may be unreadable."""
        conversation_id, lease.deadline = lease.conversation_id, Deadline(self._timeout)
        lock_deadline = Deadline(min(self._lock_timeout, self._timeout))
        if not await self._locks.acquire(conversation_id, lease, lock_deadline.remaining()):
            raise self._not_free(conversation_id)
        lease.released = self._released_tokens.get(conversation_id, "")
        # A back end may keep the last number of each store: see `memory_migrations` of PostgreSQL.
        lease.token = f"{self._store_name}.{next(self._numbers)}"
        self._check()  # the store may have been closed while this waited
        return await self._wait_for_lock(lease, lock_deadline)

    async def _save_and_release(self, lease: Lease, memory: WorkingMemory) -> None:
        self._require_held(lease)
        data = to_json(memory)
        if not await self._write(lease, data, memory.user_id):
            raise self._lost(lease)
        _remember(self._saved, lease.conversation_id, (data, memory), _STATES_KEPT)
        self._release_local(lease)

    async def _delete(self, lease: Lease) -> bool:
        self._require_held(lease)
        deleted = await self._remove(lease)
        if deleted is None:
            raise self._lost(lease)
        self._saved.pop(lease.conversation_id, None)
        self._release_local(lease)
        return deleted

    async def _erase(self, conversation_id: str, user_id: str) -> int:
        # It is not read: one that is unreadable, or of a newer version, is deleted as well.
        lease = Lease(conversation_id)
        try:
            await self._lock(lease)
            erased = await self._wipe(lease, user_id)
            if erased is None:
                raise self._lost(lease)
        except BaseException as error:
            await self._release_after_error(lease, error)
            raise
        self._saved.pop(conversation_id, None)
        self._release_local(lease)
        return erased

    async def _release(self, lease: Lease) -> None:
        if self._is_held(lease):
            await self._release_remote(lease, lease.deadline)
            self._release_local(lease)

    async def _release_after_error(self, lease: Lease, error: BaseException) -> None:
        if not self._is_held(lease) or isinstance(error, (LockLostError, StoreClosedError)):
            self._release_local(lease)  # the server has no lock of it, or `close` releases that
            return
        # A server that just failed gets one chance, and neither this call nor one that has no
        # time left waits for it.
        failed = isinstance(error, StoreUnavailableError) or lease.deadline.expired
        cancelled = not isinstance(error, Exception)
        longest = 0.3 if failed else self._release_seconds if cancelled else self._lock_timeout
        deadline = Deadline(min(longest, self._lock_timeout, self._timeout))
        release = partial(self._release_in_background, lease, deadline)
        if failed:
            self._background_tasks.start(release)
        else:
            await self._background_tasks.run(release, wait=not cancelled)

    @asynccontextmanager
    async def _renewing(self, lease: Lease) -> AsyncIterator[None]:
        self._require_held(lease)
        try:
            async with Periodic(self._lock_timeout / 3, partial(self._renew, lease)):
                yield
        finally:
            lease.deadline = Deadline(self._timeout)

    # How the lock is taken and released

    async def _wait_for_lock(self, lease: Lease, lock_deadline: Deadline) -> Stored:
        """Take the lock as soon as it is free, and return what is stored."""
        doubtful = self._doubtful_tokens.get(lease.conversation_id)
        if doubtful is not None:
            await self._release_remote(replace(lease, token=doubtful), lease.deadline)
            self._doubtful_tokens.pop(lease.conversation_id, None)
        found = await self._try(lease)
        if not isinstance(found, float):
            return found
        async with self._woken(lease) as woken:
            # A lock that is handed over waits for a second: without an event this asks in time.
            first, longest = self._pauses
            pauses = backoff(first, longest if woken is None else 1.0)
            while isinstance(found := await self._try(lease), float):
                if lock_deadline.expired:
                    raise self._not_free(lease.conversation_id)
                pause = min(lock_deadline.remaining(), found, next(pauses))
                if woken is None:
                    await sleep(pause)
                else:
                    await woken.wait(pause)
                    woken.clear()
        return found

    async def _try(self, lease: Lease) -> Stored | float:
        lease.expiry = Deadline(self._lock_timeout)
        found = await self._take(lease)
        lease.tries += 1
        return found

    async def _release_in_background(self, lease: Lease, deadline: Deadline) -> None:
        """Release a lock that may or may not be held."""
        try:
            await self._release_remote(lease, deadline)
        except Exception as error:
            _remember(self._doubtful_tokens, lease.conversation_id, lease.token, _TOKENS_KEPT)
            logger.debug("%r: the lock is left to expire: %s", lease.conversation_id, error)
        finally:
            self._release_local(lease)

    async def _renew(self, lease: Lease) -> bool:
        """Let the lock last longer; False if it is lost."""
        if not self._is_held(lease):  # the store was closed
            return False
        expiry = Deadline(self._lock_timeout)
        try:
            # Until the lock expires, a renewal that failed is tried again at once.
            if await self._extend(lease, lease.expiry):
                lease.expiry = expiry
                return True
        except Exception as error:
            logger.warning("%r: the lock could not be renewed: %s", lease.conversation_id, error)
            return not lease.expiry.expired
        logger.warning("%r: the lock was lost while it was held", lease.conversation_id)
        return False

    def _release_local(self, lease: Lease) -> None:
        """Let the next call of this process have its turn."""
        if self._is_held(lease):
            _remember(self._released_tokens, lease.conversation_id, lease.token, _TOKENS_KEPT)
        self._locks.release(lease.conversation_id, lease)

    def _is_held(self, lease: Lease) -> bool:
        """Return whether the server may hold the lease's lock, as far as this process knows."""
        return bool(lease.token) and self._locks.is_held(lease.conversation_id, lease)

    def _require_held(self, lease: Lease) -> None:
        if not self._is_held(lease):
            raise self._lost(lease)

    def _not_free(self, conversation_id: str) -> LockTimeoutError:
        return LockTimeoutError(
            f"the lock of conversation {conversation_id!r} was not free within"
            f" {min(self._lock_timeout, self._timeout):g} s; in a locked() block use the methods"
            " of its working memory, not the store's"
        )

    def _lost(self, lease: Lease) -> LockLostError:
        self._check()  # closing the store releases its locks
        return LockLostError(
            f"the lock of conversation {lease.conversation_id!r} expired while it was held, and"
            f" nothing was written: the update took longer than {self._lock_timeout:g} s, or the"
            " server lost the lock"
        )

    # What is stored

    def _last_saved(self, conversation_id: str, stored: Stored) -> WorkingMemory | None:
        """Return what this store has saved, if it is still stored: that need not be parsed."""
        data, memory = self._saved.get(conversation_id, (None, None))
        return memory if isinstance(stored, bytes) and stored == data else None

    async def _read(
        self, conversation_id: str, stored: Stored, deadline: Deadline
    ) -> WorkingMemory | None:
        """Build the working memory; one that cannot be read is moved out of the way."""
        if stored is None:
            return None
        data, reason = (b"", stored) if isinstance(stored, str) else (stored, "")
        try:
            if data:
                return from_json(data, self.memory_type)
        except ValidationError as error:
            reason = "; ".join(f"{e['type']} at {e['loc']}" for e in error.errors()[:3])
        logger.error(
            "the working memory of conversation %r cannot be read (%s): it is kept for 7 days at"
            " %s, and the conversation starts anew",
            conversation_id,
            reason or "no text at all",
            await self._set_aside(conversation_id, data, deadline),
        )
        return None


def _remember(known: dict[str, T], conversation_id: str, latest: T, most: int) -> None:
    """Note something of a conversation, and forget the oldest if there is a lot."""
    known.pop(conversation_id, None)
    known[conversation_id] = latest
    if len(known) > most:
        with suppress(KeyError, RuntimeError):  # another thread was faster
            del known[next(iter(known))]
