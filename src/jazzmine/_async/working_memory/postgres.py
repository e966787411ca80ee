"""Working memory in PostgreSQL, for many workers."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from jazzmine._async.working_memory.hooks import Lease
from jazzmine._async.working_memory.leased import LeasedStoreBase, Stored
from jazzmine._compat.async_concurrency import Event
from jazzmine.backends.postgres import memory_statements as sql
from jazzmine.backends.postgres.schema import MEMORY
from jazzmine.backends.postgres.text import from_text, to_text
from jazzmine.config import PostgresMemoryConfig
from jazzmine.deadline import Deadline, milliseconds
from jazzmine.errors import JazzmineError
from jazzmine.records.unknown_fields import FORMAT

if TYPE_CHECKING:
    from jazzmine._async.message_store.postgres_client import PostgresClient

__all__ = ["PostgresWorkingMemoryStore"]

# How often a store sweeps what has expired, at most, in s.
_SWEEPING = 60.0


class PostgresWorkingMemoryStore(LeasedStoreBase):
    """Working memories in PostgreSQL 12 or newer, shared by all processes that use it.

    One conversation has one writer at a time: its lock is a token in its row that expires, and a
    write counts only while its token holds the lock. Connections come from a pool of this store's
    own; while calls wait for locks there is one more, on which they are notified.
    """

    _system_name = "postgresql"

    # Behind a connection pooler, a lock that is handed over is noticed at the next attempt.
    _pauses = (0.005, 0.05)

    def __init__(self, config: PostgresMemoryConfig) -> None:
        PostgresMemoryConfig.require(config)
        super().__init__(config.ttl_seconds, config.lock_timeout, config.timeout)
        self._client = _open_client(config)
        self._place = f"{config.schema}.working_memory_corrupt"
        self._start()

    @classmethod
    def _configured(cls, config: PostgresMemoryConfig) -> PostgresWorkingMemoryStore:
        return cls(config)

    def _after_fork(self) -> None:
        super()._after_fork()
        self._client.after_fork()
        self._start()

    def _start(self) -> None:
        from jazzmine._async.working_memory.postgres_wakeups import PostgresWakeUps

        self._wake_ups = PostgresWakeUps(self._client, self._store_name)
        self._next_sweep = Deadline(_SWEEPING * random.random())

    async def _pending(self) -> list[str]:
        return await self._client.pending()

    async def _open(self) -> None:
        await self._client.open()

    async def _close(self) -> None:
        await self._wake_ups.close()
        await super()._close()
        await self._client.close()

    async def _ping(self) -> None:
        await self._client.rows("SELECT 1")

    async def _count(self) -> int:
        return int((await self._client.rows(sql.COUNT))[0][0])

    async def _conversations_of(self, user_id: str) -> list[str]:
        rows = await self._client.rows(sql.CONVERSATIONS_OF, {"user": to_text(user_id)})
        return [from_text(row[0]) for row in rows]

    # A statement each

    async def _fetch(self, conversation_id: str, deadline: Deadline, *, renew: bool) -> Stored:
        parameters: dict[str, object] = {"id": to_text(conversation_id)}
        if renew:
            parameters["ttl"] = milliseconds(self._ttl_seconds)
        statement = sql.RENEW if renew else sql.LOAD
        rows = await self._client.rows(statement, parameters, deadline=deadline)
        return rows[0][0] if rows else None

    async def _take(self, lease: Lease) -> Stored | float:
        # It was the head of the queue if it left the queue without the lock.
        place = 0 if not lease.entry else 1 if lease.tries == 1 else -1
        parameters = {
            "lock": milliseconds(self._lock_timeout),
            "released": lease.released,
            "place": place,
            "listens": lease.entry == _LISTENS,
        }
        wait_ms, stored = await self._row(sql.TAKE, lease, lease.deadline, parameters)
        if wait_ms is not None:
            return (int(wait_ms) + 1) / 1000
        data: Stored = stored
        return data

    async def _write(self, lease: Lease, data: bytes, user_id: str) -> bool:
        parameters = {
            "data": data,
            "user": to_text(user_id),
            "format": FORMAT,
            "ttl": milliseconds(self._ttl_seconds),
            "kept": milliseconds(self._result_kept),
        }
        (is_saved,) = await self._row(sql.SAVE, lease, lease.deadline, parameters)
        if self._next_sweep.expired:
            self._next_sweep = Deadline(_SWEEPING * random.uniform(0.5, 1.0))
            self._background_tasks.start(self._sweep)
        return bool(is_saved)

    async def _remove(self, lease: Lease) -> bool | None:
        parameters = {"kept": milliseconds(self._result_kept)}
        (is_deleted,) = await self._row(sql.DELETE, lease, lease.deadline, parameters)
        return None if is_deleted is None else bool(is_deleted)

    async def _wipe(self, lease: Lease, user_id: str) -> int | None:
        parameters = {"user": to_text(user_id), "kept": milliseconds(self._result_kept)}
        (erased,) = await self._row(sql.ERASE, lease, lease.deadline, parameters)
        return None if erased is None else int(erased)

    async def _release_remote(self, lease: Lease, deadline: Deadline) -> None:
        parameters = {"kept": milliseconds(self._result_kept)}
        await self._row(sql.RELEASE, lease, deadline, parameters)

    async def _extend(self, lease: Lease, deadline: Deadline) -> bool:
        parameters = {"lock": milliseconds(self._lock_timeout)}
        return await self._row(sql.EXTEND, lease, deadline, parameters) is not None

    async def _set_aside(self, conversation_id: str, data: bytes, deadline: Deadline) -> str:
        parameters = {"id": to_text(conversation_id), "data": data}
        await self._client.rows(sql.SET_ASIDE, parameters, deadline=deadline)
        return self._place

    @asynccontextmanager
    async def _woken(self, lease: Lease) -> AsyncIterator[Event | None]:
        async with self._wake_ups.waiting(lease.token) as event:
            lease.entry = _POLLS if event is None else _LISTENS
            yield event

    async def _sweep(self) -> None:
        """Delete some of what has expired; more is left to the next save."""
        try:
            deleted = await self._client.rows(sql.SWEEP)
            await self._client.rows(sql.SWEEP_CORRUPT)
        except JazzmineError:
            return
        if len(deleted) == sql.SWEPT_AT_ONCE:
            self._next_sweep = Deadline(0.0)

    async def _row(
        self, statement: str, lease: Lease, deadline: Deadline, parameters: Mapping[str, object]
    ) -> Any:
        """Run a statement about a lease, and return its row; None if it has none."""
        about = {"id": to_text(lease.conversation_id), "token": lease.token}
        rows = await self._client.rows(statement, {**about, **parameters}, deadline=deadline)
        return rows[0] if rows else None


# How a lease that waits in the queue learns that the lock is handed over to it.
_LISTENS, _POLLS = "listens", "polls"


def _open_client(config: PostgresMemoryConfig) -> PostgresClient:
    try:
        from jazzmine._async.message_store.postgres_client import PostgresClient
    except ImportError as error:
        raise ImportError(
            "PostgreSQL needs its driver: pip install 'jazzmine[postgres]'"
        ) from error
    return PostgresClient(config, MEMORY)
