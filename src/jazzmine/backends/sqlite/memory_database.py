"""A database in the memory of the process, for its threads and tasks."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar
from weakref import finalize

from jazzmine.backends.sqlite import search
from jazzmine.backends.sqlite.connection import prepare_for_forks
from jazzmine.backends.sqlite.errors import DatabaseBusy, closed_meanwhile, translated
from jazzmine.backends.sqlite.file_check import require_sqlite
from jazzmine.backends.sqlite.functions import add_functions
from jazzmine.backends.sqlite.migrations import Component, migrate
from jazzmine.backends.sqlite.transaction import Write, apply_all

__all__ = ["MemoryDatabase"]

T = TypeVar("T")


class MemoryDatabase:
    """A database without a file: one connection, which threads use one after another.

    Args:
        component: the tables that it is opened for.
        path: what error messages call it.

    Attributes:
        lock: held while the connection is used.
        has_search: whether messages are indexed in the transaction that stores them.
    """

    def __init__(self, component: Component, path: str = "memory:") -> None:
        self.path: str = path
        self.lock: threading.RLock = threading.RLock()
        self.has_search: bool = False
        self._component = component
        self._connection: sqlite3.Connection | None = None
        self._long_use = False
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
        add_functions(connection)
        migrate(connection, self.path, self._component)
        connection.execute("PRAGMA foreign_keys = ON")
        self._connection = connection

    def close(self) -> None:
        """Drop everything; later calls raise `StoreClosedError`."""
        with self.lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def before_fork(self) -> None:
        """Wait for the thread that uses it: both processes go on with what it has then."""
        self.lock.acquire()

    def in_forked_process(self, new: object) -> MemoryDatabase:
        """Return the database to use in a forked process: a copy of the parent's is there."""
        return self

    def is_stale(self) -> bool:
        """Whether reads have to wait for `refresh`."""
        return False

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Make the database up to date, as a change that is committed."""

    def purge(self, changes: Sequence[Write]) -> None:
        """Do nothing: no file has what was deleted."""
        for change in changes:
            change.claim()

    # Reads

    def read(self, query: Callable[[sqlite3.Connection, int], T], size: int) -> T:
        """Return the result of a query, after other threads have used the database.

        Args:
            query: called with the connection and `size`.
            size: how many bytes of records it may read.

        Raises:
            StoreClosedError: the database was closed.
            OSError: there is too little memory.
        """
        with self.lock:
            self._long_use = True
            try:
                return query(self._open_connection(), size)
            except sqlite3.Error as error:
                raise translated(error, self.path) from error
            finally:
                self._long_use = False

    def read_now(self, query: Callable[[sqlite3.Connection, int], T], size: int) -> T:
        """Do the same as `read`, but raise `DatabaseBusy` if it is stale, or takes long."""
        if self._long_use or self.is_stale():
            raise DatabaseBusy
        with self.lock:
            try:
                return query(self._open_connection(), size)
            except sqlite3.Error as error:
                raise translated(error, self.path) from error

    # Writes

    def commit(self, changes: Sequence[Write]) -> None:
        """Apply the changes in one transaction; each of them gets a result or an error.

        Args:
            changes: called with a connection.

        Raises:
            OSError: nothing changed.
        """
        self._transact([change for change in changes if change.claim()], _commit)

    def _transact(
        self, changes: Sequence[Write], finish: Callable[[sqlite3.Connection, bool], T]
    ) -> T:
        """Apply changes in a transaction, and return what `finish` returns at its end.

        Args:
            changes: they are claimed.
            finish: called with the connection, and whether anything was changed; what it does
                not commit is undone.
        """
        with self.lock:
            connection = self._open_connection()
            self._long_use, connection.text_factory = True, str
            try:
                before = connection.total_changes
                connection.execute("BEGIN")
                apply_all(connection, changes, self.path)
                if self.has_search:
                    self.has_search = search.index_changes(connection)
                return finish(connection, connection.total_changes != before)
            except sqlite3.Error as error:
                raise translated(error, self.path) from error
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._long_use, connection.text_factory = False, bytes

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise closed_meanwhile()
        return self._connection


def _commit(connection: sqlite3.Connection, _: bool) -> None:
    connection.execute("COMMIT")
