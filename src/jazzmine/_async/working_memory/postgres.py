"""Working memory in PostgreSQL, for many workers."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jazzmine._async.background import BackgroundTasks
from jazzmine._async.clients.postgres import new_client
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
from jazzmine.backends.postgres import memory_statements as sql
from jazzmine.backends.postgres.schema import MEMORY_TABLES
from jazzmine.backends.postgres.text import from_text, to_text
from jazzmine.config import PostgresMemoryConfig
from jazzmine.deadline import Deadline, milliseconds
from jazzmine.errors import JazzmineError

if TYPE_CHECKING:
    from jazzmine._async.clients.postgres.client import PostgresClient

__all__ = ["PostgresBackend", "PostgresWorkingMemoryStore"]

# How often a store sweeps what has expired, at most, in s.
_SWEEPING = 60.0


class PostgresWorkingMemoryStore(WorkingMemoryStore):
    """Working memories in PostgreSQL 12 or newer, shared by all processes that use it.

    An update is one statement, which writes only where nobody has saved meanwhile. Connections
    come from a pool of this store's own, or that of `open_stores`.
    """

    def __init__(self, config: PostgresMemoryConfig, client: PostgresClient | None = None) -> None:
        PostgresMemoryConfig.require(config)
        client = client or new_client(config, MEMORY_TABLES)
        super().__init__(PostgresBackend(config, client), config)


class PostgresBackend(WorkingMemoryBackend):
    """The table of a schema."""

    system_name = "postgresql"

    def __init__(self, config: PostgresMemoryConfig, client: PostgresClient) -> None:
        self._client = client
        self._place = f"{config.schema}.working_memory_corrupt"
        ttl, kept = milliseconds(config.ttl_seconds), milliseconds(2 * config.timeout)
        self._saved = {"ttl": ttl, "kept": kept, "swept": max(ttl, kept)}
        self._deleted = {"ttl": kept, "kept": kept, "swept": kept}
        self._start()

    def _start(self) -> None:
        self._background_tasks = BackgroundTasks()
        self._next_sweep = Deadline(_SWEEPING * random.random())

    async def open(self) -> None:
        await self._client.open()

    async def close(self) -> None:
        await self._background_tasks.close(timeout=1.0)
        await self._client.close()

    async def pending(self) -> list[str]:
        return await self._client.pending()

    def after_fork(self) -> None:
        self._client.after_fork()
        self._start()

    async def ping(self) -> None:
        await self._client.run("SELECT 1")

    async def load(
        self,
        conversation_id: str,
        deadline: Deadline,
        *,
        taken_back: Mark | None = None,
        renew: bool = False,
    ) -> Stored:
        statement, parameters = sql.LOAD, {}
        if taken_back is not None:
            statement, parameters = sql.TAKE_BACK, {**self._saved, "renews": renew}
        elif renew:
            statement, parameters = sql.RENEW, self._saved
        row = await self._row(statement, conversation_id, parameters, deadline, taken_back)
        return await self._stored(conversation_id, row, deadline)

    async def write(
        self, save: Save, again: Again, deadline: Deadline
    ) -> Written | Locked | Stored:
        data = save.data
        parameters = {
            "mark": str(save.mark),
            "read": save.read_mark,
            "data": data,
            "user": to_text(save.user_id) or None,
            "format": None if data is None else save.form.format,
            **(self._deleted if data is None else self._saved),
        }
        statement = sql.WRITE if save.read_mark else sql.CREATE
        row = await self._row(statement, save.conversation_id, parameters, deadline, save.mark)
        if self._next_sweep.expired:
            self._next_sweep = Deadline(_SWEEPING * random.uniform(0.5, 1.0))
            self._background_tasks.start(self._sweep)
        if not row:
            return Stored()
        is_written, is_locked, *lock = row[:4]
        if is_written:
            return Written()
        if is_locked:
            return Locked(*lock)
        return await self._stored(save.conversation_id, row[4:], deadline)

    async def lock(self, lock: Lock, deadline: Deadline) -> Stored | Locked:
        parameters = {"lock": milliseconds(lock.seconds), "holder": lock.holder}
        row = await self._row(sql.LOCK, lock.conversation_id, parameters, deadline, lock.mark)
        if not row:
            return Stored()
        is_locked, *holder = row[:3]
        if is_locked:
            return Locked(*holder)
        return await self._stored(lock.conversation_id, row[3:], deadline)

    async def set_aside(self, conversation_id: str, mark: str, deadline: Deadline) -> str:
        await self._row(sql.SET_ASIDE, conversation_id, {"mark": mark}, deadline)
        return self._place

    async def conversations(self, deadline: Deadline) -> list[str]:
        return [
            from_text(row[0])
            for row in await self._client.run(sql.CONVERSATIONS, deadline=deadline)
        ]

    async def replace(
        self, conversation_id: str, stored: Stored, data: bytes, number: int, deadline: Deadline
    ) -> bool:
        parameters = {"mark": stored.mark, "read": stored.written, "data": data, "format": number}
        return bool(await self._row(sql.REPLACE, conversation_id, parameters, deadline))

    async def count(self, deadline: Deadline) -> int:
        return int((await self._client.run(sql.COUNT, deadline=deadline))[0][0])

    async def owned_by(self, user_id: str, deadline: Deadline) -> Owned:
        parameters = {"user": to_text(user_id)}
        rows = await self._client.run(sql.CONVERSATIONS_OF, parameters, deadline=deadline)
        found: Owned = Owned([], [])
        for conversation_id, is_aside in rows:
            found[is_aside].append(from_text(conversation_id))
        return found

    async def erase_leftovers(
        self, user_id: str, conversation_ids: Sequence[str], deadline: Deadline
    ) -> None:
        for statement in (sql.DELETE_SET_ASIDE, sql.EMPTY_EXPIRED):
            await self._client.run(statement, {"user": to_text(user_id)}, deadline=deadline)
        # The ids of conversations that were erased before may be of the user's name.
        while len(await self._client.run(sql.SWEEP, deadline=deadline)) == sql.SWEPT_AT_ONCE:
            pass

    async def _stored(
        self, conversation_id: str, columns: Sequence[Any], deadline: Deadline
    ) -> Stored:
        """Return what a statement says is stored, with a state that its reply has left out."""
        if not columns:
            return Stored()
        mark, data, user_id, is_left_out = columns[:4]
        if is_left_out:
            return await self.load(conversation_id, deadline)
        return Stored(mark, data, "" if user_id is None else from_text(user_id))

    async def _sweep(self) -> None:
        """Delete some of what has expired; more is left to the next save."""
        try:
            deleted = await self._client.run(sql.SWEEP)
            await self._client.run(sql.SWEEP_CORRUPT)
        except JazzmineError:
            return
        if len(deleted) == sql.SWEPT_AT_ONCE:
            self._next_sweep = Deadline(0.0)

    async def _row(
        self,
        statement: str,
        conversation_id: str,
        parameters: Mapping[str, object],
        deadline: Deadline,
        mark: Mark | None = None,
    ) -> Sequence[Any]:
        """Run a statement about a conversation, and return its row; () if it has none."""
        about: dict[str, object] = {"id": to_text(conversation_id), **parameters}
        if mark is not None:
            about |= mark._asdict()
        rows = await self._client.run(statement, about, deadline=deadline)
        return rows[0] if rows else ()
