"""Working memory in an SQLite database, for the processes of one machine."""

from __future__ import annotations

import random
import sqlite3

from jazzmine._async.clients.sqlite import SQLiteClient, file_client
from jazzmine._async.working_memory.backend import (
    Again,
    Lock,
    Locked,
    Save,
    Stored,
    WorkingMemoryBackend,
    Written,
    outcome_of,
    stored_of,
)
from jazzmine._async.working_memory.store import WorkingMemoryStore
from jazzmine.backends.sqlite import memory
from jazzmine.backends.sqlite.memory import Row
from jazzmine.backends.sqlite.migrations import Component
from jazzmine.config import SQLiteMemoryConfig
from jazzmine.deadline import Deadline

__all__ = ["MEMORY_TABLES", "SQLiteBackend", "SQLiteWorkingMemoryStore"]

MEMORY_TABLES = Component("working_memory")

# How often a store sweeps what has expired, at most, in s.
_SWEEPING = 60.0


class SQLiteWorkingMemoryStore(WorkingMemoryStore):
    """Working memories in an SQLite database, which several processes of a machine may share.

    An update reads, applies its transition and writes in one transaction. A save returns when the
    disk holds it.
    """

    def __init__(self, config: SQLiteMemoryConfig, client: SQLiteClient | None = None) -> None:
        SQLiteMemoryConfig.require(config)
        client = client or file_client(config, MEMORY_TABLES)
        super().__init__(SQLiteBackend(config, client), config)


class SQLiteBackend(WorkingMemoryBackend):
    """The tables of a database.

    A change is read, made and written in one transaction.
    """

    system_name = "sqlite"

    def __init__(self, config: SQLiteMemoryConfig, client: SQLiteClient) -> None:
        self._config = config
        self.client: SQLiteClient = client
        self._next_sweep = Deadline(_SWEEPING * random.random())

    async def pending(self) -> list[str]:
        return await self.client.pending()

    async def open(self) -> None:
        await self.client.open()

    async def close(self) -> None:
        await self.client.close()

    async def ping(self) -> None:
        await self.client.read(memory.ping)

    async def load(
        self, conversation_id: str, deadline: Deadline, *, renew: bool = False
    ) -> Stored:
        if renew:
            ttl = self._config.ttl_seconds
            row = await self.client.write(memory.renew, conversation_id, ttl, deadline=deadline)
        else:
            row = await self.client.read(memory.load, conversation_id)
        return _stored(row)

    async def write(
        self, save: Save, again: Again, deadline: Deadline
    ) -> Written | Locked | Stored:
        ttl = self._config.ttl_seconds

        def change(connection: sqlite3.Connection) -> Row | None:
            row = memory.write(connection, save._asdict(), ttl)
            if row is not None and row.holder is None:
                repeated = again(_stored(row))
                if repeated is not None:
                    row = memory.write(connection, repeated._asdict(), ttl)
            if self._next_sweep.expired:
                is_more = memory.sweep(connection)
                pause = 0.0 if is_more else _SWEEPING * random.uniform(0.5, 1.0)
                self._next_sweep = Deadline(pause)
            return row

        row = await self.client.write(change, deadline=deadline)
        if row is None:
            return Written()
        return outcome_of(save, row.marks, row.data, row.user_id, _locked(row))

    async def lock(self, lock: Lock, deadline: Deadline) -> Stored | Locked:
        ttl = max(self._config.ttl_seconds, self._config.lease_seconds)
        row = await self.client.write(memory.lock, lock._asdict(), ttl, deadline=deadline)
        return _locked(row) or _stored(row)

    async def unlock(self, conversation_id: str, token: str, deadline: Deadline) -> None:
        await self.client.write(memory.unlock, conversation_id, token, deadline=deadline)

    async def conversations(self, deadline: Deadline, user_id: str | None = None) -> list[str]:
        return await self.client.read(memory.conversations, user_id, records=None)

    async def sample(self, limit: int, deadline: Deadline) -> list[str]:
        return await self.client.read(memory.conversations, None, limit, records=limit)

    async def replace(
        self, conversation_id: str, stored: Stored, data: bytes, number: int, deadline: Deadline
    ) -> bool:
        about = (conversation_id, stored.mark, data, number)
        return await self.client.write(memory.replace, *about, deadline=deadline)

    async def purge(self) -> None:
        await self.client.purge()

    async def count(self, deadline: Deadline) -> int:
        return await self.client.read(memory.count, records=None)

    async def erase_expired(self, user_id: str, deadline: Deadline) -> None:
        await self.client.write(memory.erase_expired, user_id, deadline=deadline)
        await self.purge()


def _stored(row: Row) -> Stored:
    return stored_of(row.marks, row.data, row.user_id)


def _locked(row: Row) -> Locked | None:
    return None if row.holder is None else Locked(row.holder, row.held_for)
