"""Working memory in an SQLite database, for the processes of one machine."""

from __future__ import annotations

import logging
import random
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from jazzmine._sync.background import BackgroundTasks
from jazzmine._sync.clients.sqlite import SQLiteClient, file_client
from jazzmine._sync.working_memory.backend import (
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
from jazzmine._sync.working_memory.store import WorkingMemoryStore
from jazzmine.backends.sqlite import memory
from jazzmine.backends.sqlite.memory import Holder, Row
from jazzmine.backends.sqlite.migrations import Component
from jazzmine.config import SQLiteMemoryConfig
from jazzmine.deadline import Deadline
from jazzmine.errors import JazzmineError

__all__ = ["MEMORY_TABLES", "SQLiteBackend", "SQLiteWorkingMemoryStore"]

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

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

    The change of a call that was interrupted is settled before the next one, so the database keeps
    no numbers of requests.
    """

    system_name = "sqlite"

    def __init__(self, config: SQLiteMemoryConfig, client: SQLiteClient) -> None:
        self._config = config
        self.client: SQLiteClient = client
        self._background_tasks = BackgroundTasks()
        self._next_sweep = Deadline(_SWEEPING * random.random())

    def pending(self) -> list[str]:
        return self.client.pending()

    def open(self) -> None:
        self.client.open()

    def close(self) -> None:
        self._background_tasks.close(timeout=1.0)
        self.client.close()

    def ping(self) -> None:
        self._query(memory.ping)

    def load(
        self,
        conversation_id: str,
        deadline: Deadline,
        *,
        taken_back: Mark | None = None,
        renew: bool = False,
    ) -> Stored:
        if taken_back is not None:
            held = (conversation_id, taken_back.store, taken_back.number)
            if self._query(lambda connection: memory.is_locked_by(connection, *held)):
                self._change(deadline, lambda connection: memory.unlock(connection, *held))
        if renew:
            query = partial(
                memory.renew, conversation_id=conversation_id, ttl=self._config.ttl_seconds
            )
            return _stored(self._change(deadline, query))
        return _stored(self._query(partial(memory.load, conversation_id=conversation_id)))

    def write(
        self, save: Save, again: Again, deadline: Deadline
    ) -> Written | Locked | Stored:
        def change(connection: sqlite3.Connection) -> Holder | Row | None:
            outcome = self._write(connection, save)
            if isinstance(outcome, Row):
                repeated = again(_stored(outcome))
                if repeated is not None:
                    return self._write(connection, repeated)
            return outcome

        outcome = self._change(deadline, change)
        if self._next_sweep.expired:
            self._next_sweep = Deadline(_SWEEPING * random.uniform(0.5, 1.0))
            self._background_tasks.start(self._sweep)
        if outcome is None:
            return Written()
        return Locked(*outcome) if isinstance(outcome, Holder) else _stored(outcome)

    def _write(self, connection: sqlite3.Connection, save: Save) -> Holder | Row | None:
        data = save.data
        row = Row(str(save.mark), data, save.user_id or None)
        kept = 2 * self._config.timeout if data is None else self._config.ttl_seconds
        number = None if data is None else save.form.format
        about = (save.conversation_id, save.mark.store, save.read_mark)
        return memory.write(connection, *about, row, number, kept)

    def lock(self, lock: Lock, deadline: Deadline) -> Stored | Locked:
        about = (lock.conversation_id, *lock.mark, lock.holder, lock.seconds, lock.renews)
        outcome = self._change(deadline, lambda connection: memory.lock(connection, *about))
        return Locked(*outcome) if isinstance(outcome, Holder) else _stored(outcome)

    def set_aside(self, conversation_id: str, mark: str, deadline: Deadline) -> str:
        request = partial(memory.set_aside, conversation_id=conversation_id, mark=mark)
        self._change(deadline, request)
        return f"the table working_memory_corrupt of {self.client.database.path}"

    def conversations(self, deadline: Deadline) -> list[str]:
        return self._query(memory.conversations, None)

    def replace(
        self, conversation_id: str, stored: Stored, data: bytes, number: int, deadline: Deadline
    ) -> bool:
        def change(connection: sqlite3.Connection) -> bool:
            read = Row(stored.mark, stored.written)
            return memory.replace(connection, conversation_id, read, data, number)

        return self._change(deadline, change)

    def purge(self) -> None:
        self.client.purge()

    def count(self, deadline: Deadline) -> int:
        return self._query(memory.count, None)

    def owned_by(self, user_id: str, deadline: Deadline) -> Owned:
        query = partial(memory.conversations_of, user_id=user_id)
        owned = Owned([], [])
        for conversation_id, is_aside in self._query(query, None):
            owned[is_aside].append(conversation_id)
        return owned

    def erase_leftovers(
        self, user_id: str, conversation_ids: Sequence[str], deadline: Deadline
    ) -> None:
        self._change(deadline, partial(memory.erase_leftovers, user_id=user_id))
        # The ids of conversations that were erased before may be of the user's name.
        while self._change(deadline, memory.sweep):
            pass
        self.purge()

    def _sweep(self) -> None:
        """Delete some of what has expired; more is left to the next save."""
        try:
            deadline = Deadline(self._config.timeout)
            if self._change(deadline, memory.sweep):
                self._next_sweep = Deadline(0.0)
        except (OSError, JazzmineError) as error:
            logger.debug("expired working memories are left to be swept: %s", error)

    def _query(self, query: Callable[[sqlite3.Connection], T], records: int | None = 1) -> T:
        return self.client.read(lambda connection, _: query(connection), records)

    def _change(
        self,
        deadline: Deadline,
        change: Callable[[sqlite3.Connection], T],
    ) -> T:
        """Call a function with a connection that writes, in a transaction.

        Args:
            deadline: until when it waits for other processes.
        """
        return self.client.write(change, deadline)


def _stored(row: Row) -> Stored:
    return Stored(row.mark, row.data, row.user_id or "")
