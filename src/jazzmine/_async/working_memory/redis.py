"""Working memory in Redis, for many workers."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError

from jazzmine._async.working_memory.base import WorkingMemoryStore
from jazzmine._async.working_memory.hooks import Lease
from jazzmine._async.working_memory.redis_client import RedisClient, backoff
from jazzmine._async.working_memory.redis_wakeups import WakeUps
from jazzmine._compat.async_background import BackgroundTasks, Periodic
from jazzmine._compat.async_concurrency import KeyedLocks
from jazzmine._compat.async_redis import (
    INTERRUPTIBLE,
    AnyRedis,
    client_for,
    cluster_for,
    is_client,
)
from jazzmine.backends.redis import keys as layout
from jazzmine.backends.redis.driver import settings_of
from jazzmine.backends.redis.keys import Keys, milliseconds
from jazzmine.config import RedisConfig, require_seconds
from jazzmine.deadline import Deadline
from jazzmine.errors import (
    InvalidAddressError,
    LockLostError,
    LockTimeoutError,
    StoreUnavailableError,
)
from jazzmine.records.memory_json import from_json, to_json
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["RedisWorkingMemoryStore"]

logger: logging.Logger = logging.getLogger(__name__)

# The result of a token is kept for longer than any call repeats its request.
_RESULT_KEPT = 2

# Of how many conversations the last token is remembered.
_REMEMBERED = 1000


@dataclass
class _LockAttempt:
    """A lock that this store holds, or is about to.

    Args:
        deadline: when the call that needs the lock has to end.
        expiry: when the lock expires unless it is renewed.
        entry: the token's entry in the queue for the lock; empty while there is none.
    """

    token: str
    keys: Keys
    deadline: Deadline
    expiry: Deadline
    entry: str = ""

    @property
    def locking(self) -> tuple[str, str, str, str]:
        """The keys that the lock is taken and released with."""
        return self.keys.memory, self.keys.lock, self.keys.result(self.token), self.keys.queue


class RedisWorkingMemoryStore(WorkingMemoryStore):
    """Working memories in Redis, shared by all processes that use it.

    One conversation has one writer at a time: its lock is a key that expires, and a write counts
    only while its token holds the lock. That is true of one primary: what a failover loses of
    the last writes is lost here, too.

    Args:
        redis_client: a client of redis-py, for one server, from Sentinel's `master_for`, or for
            a cluster. All traffic goes through it, with its settings: a call can end at its
            deadline only if the client has a `socket_timeout` and few retries. Closing the store
            leaves the client open.
        ttl_seconds: how long, in s, a working memory is kept after it was saved last.
        lock_timeout: how long, in s, an update waits for the conversation's lock, and how long
            the lock of a process that died blocks the others.
        timeout: how long, in s, a call may take, however often it repeats its commands.

    Raises:
        TypeError: `redis_client` is not a client of redis-py of the store's own kind.
    """

    def __init__(
        self,
        redis_client: AnyRedis,
        ttl_seconds: float = 3600,
        lock_timeout: float = 15,
        *,
        timeout: float = 30,
    ) -> None:
        super().__init__()
        require_seconds("ttl_seconds", ttl_seconds)
        require_seconds("lock_timeout", lock_timeout)
        require_seconds("timeout", timeout)
        if not is_client(redis_client):
            raise TypeError(f"redis_client must be a {AnyRedis}, not {type(redis_client)!r}")
        self._client = redis_client
        self._config: RedisConfig | None = None  # of a client that is the store's own
        self._ttl = milliseconds(ttl_seconds)
        self._lock_timeout = lock_timeout
        self._timeout = timeout
        self._after_fork()
        if not INTERRUPTIBLE and settings_of(redis_client)["socket_timeout"] is None:
            warnings.warn(
                "redis_client has no socket_timeout: a call may wait for a silent server for ever",
                RuntimeWarning,
                stacklevel=2,
            )

    @classmethod
    def _configured(cls, config: RedisConfig) -> RedisWorkingMemoryStore:
        try:
            client = client_for(config.url, _patience(config.timeout, config.lock_timeout))
        except (TypeError, ValueError):
            # The driver's text may repeat the URL, and with it the password.
            raise InvalidAddressError("url is not a URL that redis-py accepts") from None
        store = cls(client, config.ttl_seconds, config.lock_timeout, timeout=config.timeout)
        store._config = config
        return store

    async def _open(self) -> None:
        assert self._config is not None
        deadline, url = Deadline(self._timeout), self._config.url
        patience = _patience(self._timeout, self._lock_timeout)
        try:
            if await self._redis.needs_cluster(deadline):
                await self._client.aclose()
                self._client = await self._redis.retry_until(
                    deadline, lambda: cluster_for(url, patience)
                )
                self._after_fork()
                await self._redis.ping(deadline)
        except BaseException:
            await self._client.aclose()
            raise

    async def _close(self) -> None:
        await self._wake_ups.close()
        for conversation_id, attempt in list(self._held.items()):
            lease = Lease(conversation_id, attempt.token, None)
            work = partial(self._release_in_background, lease, attempt, Deadline(1.0))
            self._background_tasks.start(work)
        await self._background_tasks.close(timeout=1.0)
        await self._redis.close(disconnect=self._config is not None)

    async def _ping(self) -> None:
        await self._redis.ping(Deadline(self._timeout))

    def _after_fork(self) -> None:
        # The locks of a parent's threads are never released in a forked child.
        patience = _patience(self._timeout, self._lock_timeout)
        limited = settings_of(self._client)["socket_timeout"] is not None
        self._redis = RedisClient(self._client, None if limited else patience)
        self._wake_ups = WakeUps(self._client)
        self._locks = KeyedLocks()
        self._held: dict[str, _LockAttempt] = {}
        self._doubtful_tokens: dict[str, str] = {}  # they may hold a lock
        self._released_tokens: dict[str, str] = {}
        self._background_tasks = BackgroundTasks()

    async def _load(self, conversation_id: str, *, renew: bool = False) -> WorkingMemory | None:
        keys, deadline = Keys(conversation_id), Deadline(self._timeout)
        arguments = (self._ttl if renew else 0,)
        found = await self._redis.run(layout.LOAD, (keys.memory,), arguments, deadline)
        return await self._read(conversation_id, found, deadline)

    async def _count(self) -> int:
        return await self._redis.count(layout.ANY_MEMORY, Deadline(self._timeout))

    # Under the lock

    async def _acquire(self, conversation_id: str) -> Lease:
        deadline = Deadline(self._timeout)
        lock_deadline = Deadline(min(self._lock_timeout, self._timeout))
        if not await self._locks.acquire(conversation_id, lock_deadline.remaining()):
            raise self._not_free(conversation_id)
        token, keys = os.urandom(12).hex(), Keys(conversation_id)
        attempt = _LockAttempt(token, keys, deadline, Deadline(self._lock_timeout))
        self._held[conversation_id] = attempt
        try:
            self._check()  # the store may have been closed while this waited
            found = await self._take(conversation_id, attempt, lock_deadline)
            memory = await self._read(conversation_id, found, deadline)
        except BaseException as error:
            await self._release_after_error(Lease(conversation_id, token, None), error)
            raise
        return Lease(conversation_id, token, memory)

    async def _save_and_release(self, lease: Lease, memory: WorkingMemory) -> None:
        attempt, data = self._own(lease), to_json(memory)
        times = (self._ttl, self._result_kept)
        arguments = (attempt.token, data, memory.user_id, layout.FORMAT, *times)
        if not await self._redis.run(layout.SAVE, attempt.locking, arguments, attempt.deadline):
            raise self._lost(lease.conversation_id)
        self._release_local(lease)

    async def _delete(self, lease: Lease) -> bool:
        attempt = self._own(lease)
        arguments = (attempt.token, self._result_kept)
        deleted = await self._redis.run(layout.DELETE, attempt.locking, arguments, attempt.deadline)
        if deleted < 0:
            raise self._lost(lease.conversation_id)
        self._release_local(lease)
        return bool(deleted)

    async def _release(self, lease: Lease) -> None:
        attempt = self._held_by(lease)
        if attempt is not None:
            await self._release_remote(attempt, attempt.deadline)
            self._release_local(lease)

    async def _release_after_error(self, lease: Lease, error: BaseException) -> None:
        attempt = self._held_by(lease)
        if attempt is None:
            return
        if isinstance(error, LockLostError):
            self._release_local(lease)
            return
        # A server that just failed gets one chance, and the call does not wait for it.
        failed = isinstance(error, StoreUnavailableError)
        deadline = Deadline(min(0.3 if failed else self._lock_timeout, self._timeout))
        release = partial(self._release_in_background, lease, attempt, deadline)
        if failed:
            self._background_tasks.start(release)
        else:
            await self._background_tasks.run(release, wait=isinstance(error, Exception))

    @asynccontextmanager
    async def _renewing(self, lease: Lease) -> AsyncIterator[None]:
        attempt = self._own(lease)
        renew = partial(self._renew, lease.conversation_id, attempt)
        async with Periodic(self._lock_timeout / 3, renew):
            yield
        attempt.deadline = Deadline(self._timeout)

    # How the lock is taken and released

    async def _take(
        self, conversation_id: str, attempt: _LockAttempt, lock_deadline: Deadline
    ) -> Any:
        """Wait until the lock is taken, and return what is stored."""
        doubtful = self._doubtful_tokens.get(conversation_id)
        if doubtful is not None:
            other = _LockAttempt(doubtful, attempt.keys, attempt.deadline, attempt.expiry)
            await self._release_remote(other, attempt.deadline)
            self._doubtful_tokens.pop(conversation_id, None)
        found = await self._try(conversation_id, attempt)
        if not isinstance(found, int):
            return found
        async with self._wake_ups.waiting(attempt.token) as (woken, attempt.entry):
            # A call that is not woken has to ask while a lock that is handed over waits for it.
            pauses = backoff(0.02, 0.25 if attempt.entry == attempt.token else 1.0)
            end = "RPUSH"
            while isinstance(found := await self._try(conversation_id, attempt, end), int):
                if lock_deadline.expired:
                    raise self._not_free(conversation_id)
                expiry = (found + 1) / 1000 if found >= 0 else self._lock_timeout
                await woken.wait(min(lock_deadline.remaining(), expiry, next(pauses)))
                woken.clear()
                # It was the head of the queue if it left the queue without the lock.
                end = "LPUSH"
        return found

    async def _try(self, conversation_id: str, attempt: _LockAttempt, end: str = "RPUSH") -> Any:
        """Return what is stored or, as a number, for how many ms another token has the lock."""
        attempt.expiry = Deadline(self._lock_timeout)
        released = self._released_tokens.get(conversation_id, "")
        queueing = (attempt.entry, end) if attempt.entry else ()
        arguments = (attempt.token, milliseconds(self._lock_timeout), released, *queueing)
        return await self._redis.run(layout.ACQUIRE, attempt.locking, arguments, attempt.deadline)

    async def _release_remote(self, attempt: _LockAttempt, deadline: Deadline) -> None:
        arguments = (attempt.token, self._result_kept, attempt.entry)
        await self._redis.run(layout.RELEASE, attempt.locking[1:], arguments, deadline)

    async def _release_in_background(
        self, lease: Lease, attempt: _LockAttempt, deadline: Deadline
    ) -> None:
        """Release a lock that may or may not be held."""
        try:
            await self._release_remote(attempt, deadline)
        except Exception as error:
            _remember(self._doubtful_tokens, lease.conversation_id, attempt.token)
            logger.debug("%r: the lock is left to expire: %s", lease.conversation_id, error)
        finally:
            self._release_local(lease)

    async def _renew(self, conversation_id: str, attempt: _LockAttempt) -> bool:
        """Let the lock last longer; False if it is lost."""
        if self._held.get(conversation_id) is not attempt:  # the store was closed
            return False
        expiry = Deadline(self._lock_timeout)
        arguments = (attempt.token, milliseconds(self._lock_timeout))
        try:
            # Until the lock expires, a renewal that failed is tried again at once.
            if await self._redis.run(layout.RENEW, (attempt.keys.lock,), arguments, attempt.expiry):
                attempt.expiry = expiry
                return True
        except Exception as error:
            logger.warning("%r: the lock could not be renewed: %s", conversation_id, error)
            return not attempt.expiry.expired
        logger.warning("%r: the lock was lost while it was held", conversation_id)
        return False

    def _release_local(self, lease: Lease) -> None:
        """Let the next call of this process have its turn."""
        if self._held_by(lease) is not None:
            del self._held[lease.conversation_id]
            _remember(self._released_tokens, lease.conversation_id, lease.token)
            self._locks.release(lease.conversation_id)

    def _held_by(self, lease: Lease) -> _LockAttempt | None:
        """Return the attempt of a lease; None if it is over."""
        attempt = self._held.get(lease.conversation_id)
        return attempt if attempt is not None and attempt.token == lease.token else None

    def _own(self, lease: Lease) -> _LockAttempt:
        attempt = self._held_by(lease)
        if attempt is None:
            raise self._lost(lease.conversation_id)
        return attempt

    @property
    def _result_kept(self) -> int:
        return milliseconds(_RESULT_KEPT * self._timeout)

    # What is stored

    async def _read(
        self, conversation_id: str, found: Any, deadline: Deadline
    ) -> WorkingMemory | None:
        """Build the working memory; one that cannot be read is moved out of the way."""
        if found is None:
            return None
        data = found if isinstance(found, bytes) else b""
        try:
            if data:
                return from_json(data, self.memory_type)
            reason = found[0].decode() if found else "no text at all"
        except ValidationError as error:
            reason = "; ".join(f"{e['type']} at {e['loc']}" for e in error.errors()[:3])
        keys = Keys(conversation_id)
        arguments = (data, layout.SET_ASIDE_MS)
        await self._redis.run(layout.SET_ASIDE, (keys.memory, keys.corrupt), arguments, deadline)
        logger.error(
            "the working memory of conversation %r cannot be read (%s): it is kept for 7 days at"
            " %s, and the conversation starts anew",
            conversation_id,
            reason,
            keys.corrupt,
        )
        return None

    def _not_free(self, conversation_id: str) -> LockTimeoutError:
        return LockTimeoutError(
            f"the lock of conversation {conversation_id!r} was not free within"
            f" {min(self._lock_timeout, self._timeout):g} s; in a locked() block use the methods"
            " of its working memory, not the store's"
        )

    def _lost(self, conversation_id: str) -> LockLostError:
        self._check()  # closing the store releases its locks
        return LockLostError(
            f"the lock of conversation {conversation_id!r} expired while it was held, and nothing"
            f" was written: the update took longer than {self._lock_timeout:g} s, or the server"
            " lost the lock"
        )


def _patience(timeout: float, lock_timeout: float) -> float:
    """Return how long to wait for a reply before a command is repeated, in s."""
    return min(5.0, timeout / 3, max(0.1, lock_timeout / 4))


def _remember(tokens: dict[str, str], conversation_id: str, token: str) -> None:
    """Note a conversation's last token, and forget the oldest if there are many."""
    tokens.pop(conversation_id, None)
    tokens[conversation_id] = token
    if len(tokens) > _REMEMBERED:
        with suppress(KeyError, RuntimeError):  # another thread was faster
            del tokens[next(iter(tokens))]
