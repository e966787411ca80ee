"""Working memory in an SQLite database, for the processes of one machine."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import ClassVar

from jazzmine._async.clients.sqlite import SQLiteClient, file_client
from jazzmine._async.working_memory.backend import Again, WorkingMemoryBackend
from jazzmine._async.working_memory.store import WorkingMemoryStore
from jazzmine.backends.sqlite import memory
from jazzmine.backends.sqlite.migrations import Component
from jazzmine.config import SQLiteMemoryConfig
from jazzmine.deadline import Deadline
from jazzmine.records.stored_memory import Lock, Locked, Save, Stored

MEMORY_TABLES = Component("working_memory")


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
    """The tables of a database. A change is read, made and written in one transaction."""

    system_name = "sqlite"
    keeps_expired: ClassVar[bool] = True

    def __init__(self, config: SQLiteMemoryConfig, client: SQLiteClient) -> None:
        self._ttl = config.ttl_seconds
        self._ttl_in_block = max(config.ttl_seconds, config.lease_seconds)
        self.client: SQLiteClient = client

    async def load(
        self, conversation_id: str, deadline: Deadline, *, renew: bool = False
    ) -> Stored:
        if renew:
            return await self.client.write(
                memory.renew, conversation_id, self._ttl, deadline=deadline
            )
        return await self.client.read(memory.load, conversation_id)

    async def write(self, save: Save, again: Again, deadline: Deadline) -> Save | Locked | Stored:
        def change(connection: sqlite3.Connection) -> Save | Locked | Stored:
            outcome = memory.write(connection, save, self._ttl)
            if isinstance(outcome, Stored):
                with suppress(BaseException):  # it is raised again outside of this thread
                    outcome = again(outcome)
            if isinstance(outcome, Save) and outcome is not save:
                outcome = memory.write(connection, outcome, self._ttl)
            return outcome

        return await self.client.write(change, deadline=deadline)

    async def lock(self, lock: Lock, deadline: Deadline) -> Stored | Locked:
        return await self.client.write(memory.lock, lock, self._ttl_in_block, deadline=deadline)

    async def conversations(
        self, deadline: Deadline, user_id: str | None = None, limit: int | None = None
    ) -> list[str]:
        return await self.client.read(memory.conversations, user_id, limit, records=limit)

    async def purge(self) -> None:
        await self.client.purge()

    async def sweep(self, deadline: Deadline, user_id: str | None = None) -> bool:
        return await self.client.write(memory.sweep, user_id, deadline=deadline)
