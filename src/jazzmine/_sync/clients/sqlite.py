"""The client of an SQLite database: small reads at once, all else in threads."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from jazzmine._sync.batcher import Batcher
from jazzmine._compat.sync_concurrency import run_blocking
from jazzmine.backends.sqlite.connection import require_not_owned
from jazzmine.backends.sqlite.database import Database
from jazzmine.backends.sqlite.errors import DatabaseBusy
from jazzmine.backends.sqlite.memory_database import MemoryDatabase
from jazzmine.backends.sqlite.migrations import Component
from jazzmine.backends.sqlite.queries import TooLarge
from jazzmine.config import SQLiteConfig
from jazzmine.records.types import MAX_INT

__all__ = ["AnyDatabase", "SQLiteClient", "file_client"]

T = TypeVar("T")
AnyDatabase: TypeAlias = Database | MemoryDatabase

# A read of so many records, of so many bytes, takes no longer than passing it to a thread and back.
_FEW_RECORDS, _FEW_BYTES = 50, 256 << 10


class SQLiteClient:
    """Runs queries and changes of a database.

    Several stores may use it: the first one opens it, and the last one closes it.

    Args:
        new_database: makes the database, again in a forked process.
    """

    def __init__(self, new_database: Callable[[], AnyDatabase]) -> None:
        self._new_database = new_database
        self.database: AnyDatabase = new_database()
        self._users = 0
        self._begin()

    def _begin(self) -> None:
        self._writes: Batcher[sqlite3.Connection] = Batcher(self.database.commit)
        # No thread of a caller has the lock of the connection that writes: a signal handler that
        # interrupts it would wait for it for ever.
        self._purges: Batcher[sqlite3.Connection] = Batcher(self.database.purge)

    @property
    def has_search(self) -> bool:
        """Whether messages are indexed in the transaction that stores them."""
        return self.database.has_search

    @has_search.setter
    def has_search(self, value: bool) -> None:
        self.database.has_search = value

    def after_fork(self) -> None:
        """Replace what the parent's threads may have locked at the fork."""
        self.database = self.database.in_forked_process(self._new_database)
        self._begin()

    def pending(self) -> list[str]:
        """Return what opening the database would create or change."""
        return run_blocking(self.database.pending)

    def open(self) -> None:
        """Create the file and the tables if they do not exist."""
        if not self._users:
            run_blocking(self.database.open)
        self._users += 1

    def close(self) -> None:
        """Finish the writes, and close the file, unless another store uses it."""
        if self._users > 1:
            self._users -= 1
            return
        require_not_owned(self.database.lock, self.database.path)
        self._users = 0
        self._writes.close()
        self._purges.close()
        run_blocking(self.database.close)

    def read(
        self, query: Callable[[sqlite3.Connection, int], T], records: int | None = 1
    ) -> T:
        """Return the result of a query of one statement.

        Args:
            query: called with a connection, and how many bytes of records it may read; it raises
                `TooLarge` if there are more.
            records: how many records it reads at most; None is any number.
        """
        if self._writes.interrupted:
            self._refresh()
        if records is not None and records <= _FEW_RECORDS:
            try:
                return self.database.read_now(query, _FEW_BYTES)
            except (DatabaseBusy, TooLarge):
                pass
        if self.database.is_stale():
            self._refresh()
        found: T = run_blocking(self.database.read, query, MAX_INT)
        return found

    def _refresh(self) -> None:
        require_not_owned(self.database.lock, self.database.path)
        self._writes.settle()
        if self.database.is_stale():
            self._writes.run(self.database.refresh)

    def write(
        self,
        change: Callable[[sqlite3.Connection], T],
        *,
        waited: float = 0.0,
        flushed: bool = True,
    ) -> T:
        """Commit a change, perhaps with others, and return its result.

        Args:
            change: called with a connection; a transaction has begun.
            waited: how much of its time the call has used already, in s.
            flushed: whether it waits for the disk.
        """
        require_not_owned(self.database.lock, self.database.path)
        done: T = self._writes.run(change, waited=waited, flushed=flushed)
        return done

    def purge(self) -> None:
        """Remove what was deleted from the database's files."""
        self._purges.run(lambda connection: None)


def file_client(config: SQLiteConfig, *components: Component) -> SQLiteClient:
    """Return the client of the database in a file, with the tables of some kinds of store."""
    # A relative path is that of the folder at the time of opening, in forked processes too.
    path = os.path.realpath(config.path)
    return SQLiteClient(lambda: Database(path, components, config.timeout, config.synchronous))
