"""Working memory in an SQLite database, for the processes of one machine."""

from __future__ import annotations

import logging
import os
import random
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from jazzmine._sync.batcher import Batcher
from jazzmine._sync.working_memory.hooks import Lease
from jazzmine._sync.working_memory.leased import LeasedStoreBase, Stored
from jazzmine._compat.sync_concurrency import run_blocking
from jazzmine.backends.sqlite import memory
from jazzmine.backends.sqlite.database import Database
from jazzmine.backends.sqlite.errors import DatabaseBusy
from jazzmine.backends.sqlite.memory import Token
from jazzmine.backends.sqlite.migrations import Component
from jazzmine.backends.sqlite.transaction import UnflushedWrite
from jazzmine.config import SQLiteMemoryConfig
from jazzmine.deadline import Deadline
from jazzmine.errors import JazzmineError
from jazzmine.records.unknown_fields import FORMAT

__all__ = ["SQLiteWorkingMemoryStore"]

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

_TABLES = Component("working_memory")

# How often a store sweeps what has expired, at most, in s.
_SWEEPING = 60.0


class SQLiteWorkingMemoryStore(LeasedStoreBase):
    """Working memories in an SQLite database, which several processes of a machine may share.

    One conversation has one writer at a time: its lock is a token in the database that expires,
    and a write counts only while its token holds the lock. A save returns when the disk holds it.
    """

    _system_name = "sqlite"

    # Nothing wakes a call that waits for a lock.
    _pauses = (0.001, 0.02)

    # A program does not end while a thread waits for the database.
    _release_seconds = 1.0

    def __init__(self, config: SQLiteMemoryConfig) -> None:
        SQLiteMemoryConfig.require(config)
        super().__init__(config.ttl_seconds, config.lock_timeout, config.timeout)
        self._config = config
        self._begin(os.fspath(config.path))

    @classmethod
    def _configured(cls, config: SQLiteMemoryConfig) -> SQLiteWorkingMemoryStore:
        return cls(config)

    def _begin(self, path: str) -> None:
        config = self._config
        self._database = Database(path, _TABLES, config.timeout, config.synchronous)
        self._writes = Batcher(self._database.commit)
        self._next_sweep = Deadline(_SWEEPING * random.random())

    def _after_fork(self) -> None:
        super()._after_fork()
        self._begin(self._database.path)

    def _pending(self) -> list[str]:
        return run_blocking(self._database.pending)

    def _open(self) -> None:
        run_blocking(self._database.open)

    def _close(self) -> None:
        super()._close()
        self._writes.close()
        run_blocking(self._database.close)

    def _ping(self) -> None:
        self._query(memory.ping)

    def _count(self) -> int:
        count: int = run_blocking(self._database.read, memory.count)
        return count

    def _conversations_of(self, user_id: str) -> list[str]:
        query = partial(memory.conversations_of, user_id=user_id)
        found: list[str] = run_blocking(self._database.read, query)
        return found

    # A transaction each

    def _fetch(self, conversation_id: str, deadline: Deadline, *, renew: bool) -> Stored:
        if renew:
            return self._change(deadline, memory.renew, conversation_id, self._ttl_seconds)
        return self._query(partial(memory.load, conversation_id=conversation_id))

    def _take(self, lease: Lease) -> Stored | float:
        token = _token(lease)
        if lease.tries > 1:
            pause = self._query(partial(memory.seconds_to_wait, token=token))
            if pause is not None:
                return pause
        # It was the head of the queue if it left the queue without the lock.
        queueing = lease.tries if lease.tries < 2 else -1
        arguments = (token, self._lock_timeout, lease.released, queueing)
        found: Stored | float = self._change(
            lease.deadline, memory.take, *arguments, flush=False
        )
        return found

    def _write(self, lease: Lease, data: bytes, user_id: str) -> bool:
        times = (self._ttl_seconds, self._result_kept)
        arguments = (_token(lease), data, user_id, FORMAT, *times)
        saved = self._change(lease.deadline, memory.save, *arguments)
        if self._next_sweep.expired:
            self._next_sweep = Deadline(_SWEEPING * random.uniform(0.5, 1.0))
            self._background_tasks.start(self._sweep)
        return bool(saved)

    def _remove(self, lease: Lease) -> bool | None:
        arguments = (_token(lease), self._result_kept)
        deleted: bool | None = self._change(lease.deadline, memory.delete, *arguments)
        return deleted

    def _wipe(self, lease: Lease, user_id: str) -> int | None:
        arguments = (_token(lease), user_id, self._result_kept)
        erased: int | None = self._change(lease.deadline, memory.erase, *arguments)
        return erased

    def _release_remote(self, lease: Lease, deadline: Deadline) -> None:
        arguments = (_token(lease), self._result_kept)
        self._change(deadline, memory.release, *arguments, flush=False)

    def _extend(self, lease: Lease, deadline: Deadline) -> bool:
        arguments = (_token(lease), self._lock_timeout)
        return bool(self._change(deadline, memory.extend, *arguments, flush=False))

    def _set_aside(self, conversation_id: str, data: bytes, deadline: Deadline) -> str:
        self._change(deadline, memory.set_aside, conversation_id, data)
        return f"the table working_memory_corrupt of {self._database.path}"

    def _sweep(self) -> None:
        """Delete some of what has expired; more is left to the next save."""
        try:
            if self._change(Deadline(self._timeout), memory.sweep, flush=False):
                self._next_sweep = Deadline(0.0)
        except (OSError, JazzmineError) as error:
            logger.debug("expired working memories are left to be swept: %s", error)

    def _query(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of a query that reads a row or two."""
        if self._writes.unsettled:
            self._writes.settle()
        try:
            return self._database.read_now(query)
        except DatabaseBusy:
            found: T = run_blocking(self._database.read, query)
            return found

    def _change(
        self, deadline: Deadline, function: Callable[..., T], *arguments: object, flush: bool = True
    ) -> T:
        """Call a function of `memory` with a connection that writes, in a transaction.

        Args:
            deadline: until when it waits for other processes.
            flush: whether the result must survive a crash of the machine.
        """
        waited = self._timeout - deadline.remaining()

        def change(connection: sqlite3.Connection) -> T:
            return function(connection, *arguments)

        write = change if flush else UnflushedWrite(change)
        changed: T = self._writes.run(write, waited=waited)
        return changed


def _token(lease: Lease) -> Token:
    store, _, number = lease.token.partition(".")
    return Token(lease.conversation_id, store, int(number))
