"""A database in the memory of the process, for its threads and tasks."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar
from weakref import finalize

from jazzmine.backends.sqlite import search
from jazzmine.backends.sqlite.connection import prepare_for_forks
from jazzmine.backends.sqlite.errors import (
    DatabaseBusy,
    closed_meanwhile,
    lock_timeout,
    translated,
)
from jazzmine.backends.sqlite.file_check import require_sqlite
from jazzmine.backends.sqlite.functions import add_functions
from jazzmine.backends.sqlite.migrations import Component, migrate
from jazzmine.backends.sqlite.writer import Call, apply_all
from jazzmine.deadline import Deadline

__all__ = ["MemoryDatabase"]

T = TypeVar("T")

# Waiting so many s for another thread takes no longer than passing the read to a thread.
_SHORTLY = 0.0005


class MemoryDatabase:
    """A database without a file: one connection, which threads use one after another.

    Args:
        component: the tables that it is opened for.
        timeout: how long, in s, a read waits for other threads.
        path: what error messages call it.

    Attributes:
        lock: held while the connection is used.
        has_search: whether messages are indexed in the transaction that stores them.
    """

    def __init__(self, component: Component, timeout: float = 30.0, path: str = "memory:") -> None:
        self.path: str = path
        self.timeout: float = timeout
        # Only its owner can release it, so that an interrupted call need not know whether it is.
        self.lock: threading.RLock = threading.RLock()
        self.has_search: bool = False
        self._component = component
        self._connection: sqlite3.Connection | None = None
        prepare_for_forks(self)

    def pending(self) -> list[str]:
        """Return what `open` would create: nothing that stays."""
        return []

    def open(self) -> None:
        """Create the tables."""
        require_sqlite()
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        # A store that is dropped has nothing to lose, so that nobody need be warned.
        finalize(self, connection.close).atexit = False
        connection.text_factory = bytes
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA temp_store = MEMORY")
        add_functions(connection)
        migrate(connection, self.path, self._component)
        connection.execute("PRAGMA foreign_keys = ON")
        self._connection = connection

    def close(self) -> None:
        """Drop everything; later calls raise `StoreClosedError`."""
        with self._use(self.timeout):
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def before_fork(self) -> None:
        """Wait for the thread that uses it: SQLite's own locks are then free in both processes."""
        self.lock.acquire()

    def purge_steps(self) -> Sequence[Callable[[], bool]]:
        """Return what removes deleted records from files: nothing, no file has them."""
        return []

    # Reads

    def read(
        self, query: Callable[[sqlite3.Connection, int], T], size: int, deadline: Deadline
    ) -> T:
        """Return the result of a query, after other threads have used the database.

        Args:
            query: called with the connection and `size`.
            size: how many bytes of records it may read.
            deadline: until when it waits for other threads.

        Raises:
            StoreClosedError: the database was closed.
            LockTimeoutError: another thread uses it until the deadline.
            OSError: there is too little memory.
        """
        with self._use(deadline.remaining()) as connection:
            if self.is_stale():
                self._update(connection)
            return query(connection, size)

    def read_now(self, query: Callable[[sqlite3.Connection, int], T], size: int) -> T:
        """Do the same as `read`, but raise `DatabaseBusy` instead of waiting."""
        if self.is_stale():
            raise DatabaseBusy
        with self._use(_SHORTLY, DatabaseBusy()) as connection:
            return query(connection, size)

    def is_stale(self) -> bool:
        """Whether a read takes long, because it has to update the records."""
        return False

    def _update(self, connection: sqlite3.Connection) -> None:
        """Make the records up to date."""

    @contextmanager
    def _use(self, timeout: float, error: Exception | None = None) -> Iterator[sqlite3.Connection]:
        """Let the block use the connection.

        Args:
            timeout: how long, in s, it waits for another thread.
            error: what is raised then.
        """
        try:
            # When the program ends, a thread that holds the lock never releases it.
            if not self.lock.acquire(timeout=0.0 if sys.is_finalizing() else timeout):
                raise error or lock_timeout(self.path, self.timeout)
            if self._connection is None:
                raise closed_meanwhile()
            yield self._connection
        except sqlite3.Error as failure:
            raise translated(failure, self.path) from failure
        finally:
            with suppress(RuntimeError):  # it was not acquired
                self.lock.release()

    # Writes

    def commit(self, calls: Sequence[Call]) -> bool:
        """Make the changes of some calls in one transaction, and return True.

        Raises:
            OSError: nothing changed.
        """
        with self._use(self.timeout) as connection:
            self._transact(connection, calls)
        return True

    def _transact(self, connection: sqlite3.Connection, calls: Sequence[Call]) -> None:
        connection.text_factory = str
        try:
            before = connection.total_changes
            connection.execute("BEGIN")
            apply_all(connection, calls, self.path)
            if self.has_search:
                self.has_search = search.index_changes(connection)
            self._keep(connection, connection.total_changes != before)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.text_factory = bytes

    def _keep(self, connection: sqlite3.Connection, changed: bool) -> None:
        """Store the records outside of the memory before a commit."""
