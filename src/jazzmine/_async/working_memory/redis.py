"""Working memory in Redis, for many workers."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from jazzmine._async.working_memory.base import WorkingMemoryStore
from jazzmine._async.working_memory.hooks import Lease
from jazzmine._async.working_memory.redis_link import Link, pauses
from jazzmine._compat.aio import KeyedLocks
from jazzmine._compat.redis_aio import RedisClient, client_at, client_dialer, close_client
from jazzmine._compat.redis_driver import redis_driver
from jazzmine._compat.upkeep_aio import Chores, Repeating
from jazzmine.config import RedisConfig, require_seconds
from jazzmine.errors import (
    InvalidAddressError,
    LockLostError,
    LockTimeoutError,
    StoreUnavailableError,
)
from jazzmine.layouts import redis as layout
from jazzmine.layouts.redis import Keys, milliseconds
from jazzmine.records.memory_json import from_json, to_json
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["RedisWorkingMemoryStore"]

logger = logging.getLogger(__name__)

# A token's last act is remembered for longer than anybody repeats it.
_REMEMBERED = 2

# Of how many conversations the last token is kept in mind.
_IN_MIND = 1000


@dataclass
class _Hold:
    """A lock that this store holds, or is about to.

    Args:
        until: when the call that wants it has to end.
    """

    token: str
    keys: Keys
    until: float

    @property
    def locking(self) -> tuple[str, str, str, str]:
        """The keys that the lock is taken and given back with."""
        return self.keys.memory, self.keys.lock, self.keys.spent(self.token), self.keys.line


class RedisWorkingMemoryStore(WorkingMemoryStore):
    """Working memories in Redis, shared by all processes that use it.

    One conversation has one writer at a time: its lock is a key that expires, and a write counts
    only while its token holds the lock. That is true of one primary: what a failover loses of
    the last writes is lost here, too.

    Args:
        redis_client: a client of redis-py, for one server, from Sentinel's `master_for`, or for
            a cluster. The store opens connections of its own with the client's settings, but
            for decoding, repetition and time-outs; closing the store leaves the client open.
        ttl_seconds: how long, in s, a working memory is kept after it was saved last.
        lock_timeout: how long, in s, an update waits for the conversation's lock, and how long
            the lock of a process that died blocks the others.
        timeout: how long, in s, a call goes on trying while the server is not available.
    """

    def __init__(
        self,
        redis_client: RedisClient,
        ttl_seconds: float = 3600,
        lock_timeout: float = 15,
        *,
        timeout: float = 30,
    ) -> None:
        super().__init__()
        for name, value in (
            ("ttl_seconds", ttl_seconds),
            ("lock_timeout", lock_timeout),
            ("timeout", timeout),
        ):
            require_seconds(name, value)
        self._client = redis_client
        self._owns_client = False
        self._ttl = milliseconds(ttl_seconds)
        self._lock_timeout = lock_timeout
        self._timeout = timeout
        self._dialer = client_dialer(redis_client)
        self._after_fork()

    @classmethod
    def _configured(cls, config: RedisConfig) -> RedisWorkingMemoryStore:
        try:
            client = client_at(config.url)
            client_dialer(client).connection(None)  # refuses an unknown option; does not connect
        except (TypeError, ValueError):
            # The driver's text may repeat the URL, and with it the password.
            raise InvalidAddressError("url is not a URL that redis-py accepts") from None
        store = cls(client, config.ttl_seconds, config.lock_timeout, timeout=config.timeout)
        store._owns_client = True
        return store

    async def _open(self) -> None:
        await self._link.open()

    async def _close(self) -> None:
        await self._chores.close(timeout=1.0)
        await self._link.close()
        if self._owns_client:
            await close_client(self._client)

    def _after_fork(self) -> None:
        # What a parent's threads held when it forked is held for ever in the child.
        patience = min(5.0, self._timeout / 3, self._lock_timeout / 2)
        self._link = Link(self._dialer, self._timeout, patience)
        self._locks = KeyedLocks()
        self._held: dict[str, _Hold] = {}
        self._left: dict[str, str] = {}  # tokens of which nobody knows whether they hold a lock
        self._past: dict[str, str] = {}  # tokens that let go
        self._chores = Chores()

    async def _ping(self) -> None:
        await self._link.open()

    async def _load(self, conversation_id: str, *, renew: bool = False) -> WorkingMemory | None:
        keys, until = Keys(conversation_id), self._link.deadline()
        try:
            if renew:
                await self._link.command(("PEXPIRE", keys.memory, self._ttl), keys.memory, until)
            found = await self._link.command(("HGET", keys.memory, "data"), keys.memory, until)
        except redis_driver().ResponseError as error:
            if "WRONGTYPE" not in str(error):
                raise
            found = [b"a key of another type"]
        return await self._read(conversation_id, found, until)

    async def _count(self) -> int:
        found: set[bytes] = set()
        until = self._link.deadline()
        for address in await self._link.primaries(until):
            cursor: bytes | int = b"0"
            while True:
                command = ("SCAN", cursor, "MATCH", layout.ANY_MEMORY, "COUNT", 1000)
                cursor, keys = await self._link.command_at(address, command, until)
                found.update(keys)
                if int(cursor) == 0:
                    break
        return len(found)

    # Under the lock

    async def _acquire(self, conversation_id: str) -> Lease:
        give_up = time.monotonic() + self._lock_timeout
        if not await self._locks.acquire(conversation_id, self._lock_timeout):
            raise self._not_free(conversation_id)
        hold = _Hold(os.urandom(12).hex(), Keys(conversation_id), self._link.deadline())
        self._held[conversation_id] = hold
        try:
            found = await self._take(conversation_id, hold, give_up)
            memory = await self._read(conversation_id, found, hold.until)
        except BaseException as error:
            await self._release_after_error(Lease(conversation_id, hold.token, None), error)
            raise
        return Lease(conversation_id, hold.token, memory)

    async def _save_and_release(self, lease: Lease, memory: WorkingMemory) -> None:
        data, hold = to_json(memory), self._held[lease.conversation_id]
        arguments = (hold.token, data, self._ttl, self._remember)
        if not await self._link.run(layout.SAVE, hold.locking, arguments, hold.until):
            raise self._lost(lease.conversation_id)
        self._pass_on(lease)

    async def _delete(self, lease: Lease) -> bool:
        hold = self._held[lease.conversation_id]
        arguments = (hold.token, self._remember)
        deleted = await self._link.run(layout.DELETE, hold.locking, arguments, hold.until)
        if deleted < 0:
            raise self._lost(lease.conversation_id)
        self._pass_on(lease)
        return bool(deleted)

    async def _release(self, lease: Lease) -> None:
        hold = self._held.get(lease.conversation_id)
        if hold is not None and hold.token == lease.token:
            await self._give_back(hold.keys, hold.token, hold.until)
            self._pass_on(lease)

    async def _release_after_error(self, lease: Lease, error: BaseException) -> None:
        hold = self._held.get(lease.conversation_id)
        if hold is None or hold.token != lease.token:
            return
        # A store that was closed meanwhile opens no connection again: the lock expires.
        if self._closed or isinstance(error, (LockLostError, LockTimeoutError)):
            self._pass_on(lease)
            return
        # A server that just failed gets one chance, and nobody waits for it for long.
        patience = 0.3 if isinstance(error, StoreUnavailableError) else self._lock_timeout
        until = time.monotonic() + min(patience, self._timeout)
        wait = isinstance(error, Exception) and not isinstance(error, StoreUnavailableError)
        await self._chores.run(lambda: self._clear_up(lease, hold, until), wait=wait)

    @asynccontextmanager
    async def _renewing(self, lease: Lease) -> AsyncIterator[None]:
        hold = self._held[lease.conversation_id]
        async with Repeating(
            self._lock_timeout / 3, lambda: self._renew(lease.conversation_id, hold)
        ):
            yield
        hold.until = self._link.deadline()

    # How the lock comes and goes

    async def _take(self, conversation_id: str, hold: _Hold, give_up: float) -> Any:
        """Wait until the lock is taken, and return what is stored."""
        left = self._left.get(conversation_id)
        if left is not None:
            await self._give_back(hold.keys, left, hold.until)
            self._left.pop(conversation_id, None)
        found = await self._try(conversation_id, hold)
        if not isinstance(found, int):
            return found
        again = pauses(0.1, 1.0)
        async with self._link.listening(hold.keys.lock) as ear:
            push = "RPUSH"
            while isinstance(
                found := await self._try(conversation_id, hold, ear.channel, push), int
            ):
                remaining = give_up - time.monotonic()
                if remaining <= 0:
                    raise self._not_free(conversation_id)
                expiry = (found + 1) / 1000 if found >= 0 else remaining
                await ear.wait(min(remaining, expiry, next(again)))
                push = "LPUSH"
        return found

    async def _try(
        self, conversation_id: str, hold: _Hold, channel: str = "", push: str = "RPUSH"
    ) -> Any:
        """Return what is stored or, as a number, for how many ms somebody else has the lock."""
        hold.until = self._link.deadline()
        over = self._past.get(conversation_id, "")
        arguments = (hold.token, milliseconds(self._lock_timeout), channel, push, over)
        return await self._link.run(layout.ACQUIRE, hold.locking, arguments, hold.until)

    async def _give_back(self, keys: Keys, token: str, until: float) -> None:
        arguments = (token, self._remember)
        names = keys.lock, keys.spent(token), keys.line
        await self._link.run(layout.RELEASE, names, arguments, until)

    async def _clear_up(self, lease: Lease, hold: _Hold, until: float) -> None:
        """Give a lock back that may or may not be held."""
        try:
            await self._give_back(hold.keys, hold.token, until)
        except Exception as error:
            _keep_in_mind(self._left, lease.conversation_id, hold.token)
            logger.debug("%r: the lock is left to expire: %s", lease.conversation_id, error)
        finally:
            self._pass_on(lease)

    async def _renew(self, conversation_id: str, hold: _Hold) -> bool:
        """Let the lock last longer; False if it is lost."""
        arguments = (hold.token, milliseconds(self._lock_timeout))
        until = time.monotonic() + self._lock_timeout / 3
        try:
            if await self._link.run(layout.RENEW, (hold.keys.lock,), arguments, until):
                return True
        except Exception as error:
            logger.warning("%r: the lock could not be renewed: %s", conversation_id, error)
            return True
        logger.warning("%r: the lock was lost while it was held", conversation_id)
        return False

    def _pass_on(self, lease: Lease) -> None:
        """Let the next in this process have its turn."""
        hold = self._held.get(lease.conversation_id)
        if hold is not None and hold.token == lease.token:
            del self._held[lease.conversation_id]
            _keep_in_mind(self._past, lease.conversation_id, lease.token)
            self._locks.release(lease.conversation_id)

    @property
    def _remember(self) -> int:
        return milliseconds(_REMEMBERED * self._timeout)

    # What is stored

    async def _read(self, conversation_id: str, found: Any, until: float) -> WorkingMemory | None:
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
        await self._link.run(layout.SET_ASIDE, (keys.memory, keys.corrupt), arguments, until)
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
            f" {self._lock_timeout:g} s; in a locked() block use the methods of its"
            " working memory, not the store's"
        )

    def _lost(self, conversation_id: str) -> LockLostError:
        return LockLostError(
            f"the lock of conversation {conversation_id!r} expired while it was held, and nothing"
            f" was written: the update took longer than {self._lock_timeout:g} s, or the server"
            " lost the lock"
        )


def _keep_in_mind(tokens: dict[str, str], conversation_id: str, token: str) -> None:
    """Note a conversation's last token, and forget the oldest if there are many."""
    tokens.pop(conversation_id, None)
    tokens[conversation_id] = token
    if len(tokens) > _IN_MIND:
        with suppress(KeyError, RuntimeError):  # another thread was faster
            del tokens[next(iter(tokens))]
