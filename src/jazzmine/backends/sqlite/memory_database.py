"""A database in the memory of the process, for its threads and tasks."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from jazzmine.backends.sqlite import search
from jazzmine.backends.sqlite.connection import Connection
from jazzmine.backends.sqlite.errors import DatabaseBusy, closed_meanwhile, lock_timeout, translated
from jazzmine.backends.sqlite.file_check import require_sqlite
from jazzmine.backends.sqlite.migrations import Component, migrate
from jazzmine.backends.sqlite.writer import Call, apply_all
from jazzmine.deadline import Deadline

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
        has_search: whether messages are indexed in the transaction that stores them.
    """

    def __init__(self, component: Component, timeout: float = 30.0, path: str = "memory:") -> None:
        self.path: str = path
        self.timeout: float = timeout
        self.has_search: bool = False
        self._component = component
        self._connection = Connection(None, "off")

    def pending(self) -> list[str]:
        """Return what `open` would create: nothing that stays."""
        return []

    def open(self) -> None:
        """Create the tables."""
        require_sqlite()
        with self._connection.lock:
            connection = self._connection.open()
            migrate(connection, self._component)
            connection.text_factory = bytes

    def close(self) -> None:
        """Drop everything; later calls raise `StoreClosedError`."""
        with self._use(self.timeout):
            self._connection.close()

    def purge(self, deadline: Deadline) -> None:
        """Remove deleted records from files: none has them."""

    # Reads

    def read(self, deadline: Deadline, query: Callable[..., T], *arguments: object) -> T:
        """Return the result of a query, after other threads have used the database.

        Args:
            deadline: until when it waits for other threads.
            query: called with the connection and the arguments.
            arguments: those of the query.

        Raises:
            StoreClosedError: the database was closed.
            LockTimeoutError: another thread uses it until the deadline.
            OSError: there is too little memory.
        """
        with self._use(deadline.remaining()) as connection:
            if self.is_stale():
                self._update(connection)
            return query(connection, *arguments)

    def read_now(self, query: Callable[..., T], *arguments: object) -> T:
        """Do the same as `read`, but raise `DatabaseBusy` instead of waiting."""
        if self.is_stale():
            raise DatabaseBusy
        with self._use(_SHORTLY, DatabaseBusy()) as connection:
            return query(connection, *arguments)

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
        lock = self._connection.lock
        try:
            # When the program ends, a thread that holds the lock never releases it.
            if not lock.acquire(timeout=0.0 if sys.is_finalizing() else timeout):
                raise error or lock_timeout(self.path, self.timeout)
            if self._connection.driver is None:
                raise closed_meanwhile()
            yield self._connection.driver
        except sqlite3.Error as failure:
            raise translated(failure, self.path) from failure
        finally:
            with suppress(RuntimeError):  # it was not acquired
                lock.release()

    # Writes

    def commit(self, calls: Sequence[Call]) -> bool:
        """Make the changes of some calls in one transaction.

        Returns:
            False if another process writes; no call was begun.

        Raises:
            OSError: nothing changed.
        """
        with self._use(self.timeout) as connection:
            if self.is_stale():
                self._update(connection)
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
        return True

    def _keep(self, connection: sqlite3.Connection, changed: bool) -> None:
        """Store the records outside of the memory before a commit."""
