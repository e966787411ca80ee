"""A database: one connection that writes for several callers at once, and some that read."""

from __future__ import annotations

import errno
import logging
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from jazzmine.backends.sqlite.connection import (
    Connection,
    ConnectionPool,
    DatabaseFile,
    create_file,
)
from jazzmine.backends.sqlite.errors import DatabaseBusy, is_busy, lock_timeout, translated
from jazzmine.backends.sqlite.file_check import check_file, require_sqlite, warn_of_network
from jazzmine.backends.sqlite.migrations import Component, is_current, migrate, migrations
from jazzmine.backends.sqlite.transaction import Transaction, UnflushedWrite, Write
from jazzmine.deadline import Deadline
from jazzmine.errors import StoreClosedError

__all__ = ["Database"]

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

# SQLite's own pauses grow to 100 ms, which several processes that write would mostly wait.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.01


class Database:
    """The database in a file, shared by threads and processes.

    The writes of one process use one connection, one after another. Each reading call has a
    connection of its own, and never waits for a write.

    Args:
        path: the file, which need not exist; a symbolic link is followed, and stays a link.
        component: the tables that it is opened for.
        timeout: how long, in s, a call waits for locks of other processes.
        synchronous: "full" if a write waits for the disk, else "normal".
    """

    def __init__(self, path: str, component: Component, timeout: float, synchronous: str) -> None:
        self.path: str = os.path.realpath(path)
        self._component = component
        self._timeout = timeout
        self._synchronous = synchronous
        file = DatabaseFile(self.path)
        self._writer = Connection(file, synchronous)
        self._readers = ConnectionPool(file, synchronous, self._writer)
        self._closed = False

    def pending(self) -> list[str]:
        """Return what `open` would create or change; nothing is changed.

        Raises:
            ConfigurationError, OSError: as in `open`.
        """
        known = migrations(self._component.name)
        stored = check_file(self.path, self._component.name, len(known))
        if not os.path.exists(self.path):
            return [f"create the file {self.path}"]
        later = [step for step in known if step.version > stored]
        return [f"apply {step.version:04} {step.name} to {self.path}" for step in later]

    def open(self) -> None:
        """Create the file and the tables if they do not exist, and bring them up to date.

        Raises:
            ConfigurationError: the file belongs to another application or to a newer version,
                and was not changed.
            LockTimeoutError: another process holds the database's lock.
            OSError: the file cannot be read, created or written.
        """
        require_sqlite()
        known = len(migrations(self._component.name))
        check_file(self.path, self._component.name, known)
        warn_of_network(self.path)
        create_file(self.path)
        deadline = Deadline(self._timeout)
        try:
            while not self._prepare():
                self._pause(deadline)
        except (sqlite3.Error, OSError):
            self.close()
            raise

    def close(self) -> None:
        """Close all connections; later calls raise `StoreClosedError`."""
        self._closed = True
        self._writer.close()
        self._readers.close()

    # Reads

    def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of a query, which sees the database as it is at one time.

        Raises:
            StoreClosedError: the database was closed.
            LockTimeoutError: another process recovers the database, and does not end.
            OSError: the file cannot be read, or is damaged.
        """
        deadline = Deadline(self._timeout)
        while True:
            try:
                return self.read_now(query)
            except DatabaseBusy:
                self._pause(deadline)

    def read_now(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Do the same as `read`, but raise `DatabaseBusy` instead of waiting."""
        if self._closed:
            raise _closed_meanwhile()
        reader = self._readers.take()
        try:
            with reader.lock:
                connection = reader.driver()
                try:
                    found = query(connection)
                    reader.note_log()
                    return found
                finally:
                    if connection.in_transaction:
                        connection.execute("COMMIT")
        except sqlite3.Error as error:
            reader.close()
            if is_busy(error):
                raise DatabaseBusy from None
            raise translated(error, self.path) from error
        finally:
            self._readers.put_back(reader)
            if self._closed:
                self._readers.close()

    # Writes

    def commit(self, changes: Sequence[Write]) -> None:
        """Apply the changes in one transaction; each change gets a result or an error.

        A change that has waited longer than `timeout` for another process gets a
        `LockTimeoutError`; then the others are left unclaimed.

        Args:
            changes: called with a connection. If all of them are `UnflushedWrite`s, they may be
                undone by a crash of the machine.

        Raises:
            OSError: the file could not be written; nothing changed.
        """
        flush = not all(isinstance(change.apply, UnflushedWrite) for change in changes)
        pauses = _pauses()
        while True:
            if self._closed:
                raise _closed_meanwhile()
            begun, failed = self._commit_if_free(changes, flush)
            if begun:
                break
            if not self._keep_waiting(changes):
                return
            time.sleep(next(pauses))
        for change in failed:
            try:
                self._commit_alone(change)
            except (OSError, MemoryError) as error:
                change.error = error

    def _commit_if_free(
        self, changes: Sequence[Write], flush: bool
    ) -> tuple[bool, Sequence[Write]]:
        """Return whether the lock was free, and the changes that have to be tried one by one."""
        with self._writer.lock, Transaction(self._writer, self.path, flush) as transaction:
            if not transaction.begin():
                return False, ()
            claimed = [change for change in changes if change.claim()]
            try:
                if not transaction.commit(claimed):
                    return True, claimed
            except (OSError, MemoryError):
                if len(claimed) == 1:
                    raise
                # The disk may refuse one change for its size; the others must not fail with it.
                return True, claimed
        return True, ()

    def _commit_alone(self, change: Write) -> None:
        deadline = Deadline(self._timeout)
        while True:
            with self._writer.lock, Transaction(self._writer, self.path) as transaction:
                if transaction.begin() and transaction.commit([change]):
                    return
            self._pause(deadline)

    def _keep_waiting(self, changes: Sequence[Write]) -> bool:
        waiting = [change for change in changes if not change.claimed]
        earliest = time.monotonic() - self._timeout
        late = [change for change in waiting if change.since <= earliest and change.claim()]
        for change in late:
            change.error = lock_timeout(self.path, self._timeout)
        return bool(waiting) and not late

    def empty_log(self) -> None:
        """Move all that was written to the file itself, and empty the -wal file.

        A read of another process that lasts longer than `timeout` prevents that; the -wal file
        is then emptied later.
        """
        deadline = Deadline(self._timeout)
        while not self._closed:
            with self._writer.lock:
                connection = self._writer.driver()
                try:
                    (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                except sqlite3.Error as error:
                    if not is_busy(error):
                        raise translated(error, self.path) from error
                    busy = True
            if not busy:
                return
            if deadline.expired:
                logger.warning("%s-wal could not be emptied: the database is read", self.path)
                return
            self._pause(deadline)

    # Opening

    def _prepare(self) -> bool:
        """Bring the tables up to date, and return True, unless the database is locked."""
        try:
            with self._writer.lock:
                connection = self._writer.driver()
                try:
                    if not is_current(connection, self.path, self._component):
                        self._migrate(connection)
                    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self._writer.close()
            if is_busy(error):
                return False
            raise translated(error, self.path) from error
        if mode != "wal":
            raise OSError(errno.ENOTSUP, "its file system does not support the WAL mode", self.path)
        return True

    def _migrate(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        migrate(connection, self.path, self._component)
        connection.execute("COMMIT")
        with suppress(sqlite3.Error):
            # So that the versions can be read without the -wal file.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _pause(self, deadline: Deadline) -> None:
        if deadline.expired:
            raise lock_timeout(self.path, self._timeout)
        time.sleep(random.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))


def _pauses() -> Iterator[float]:
    """Yield growing pauses, in s, of random length."""
    longest = _SHORTEST_PAUSE
    while True:
        yield random.uniform(_SHORTEST_PAUSE / 2, longest)
        longest = min(longest * 1.5, _LONGEST_PAUSE)


def _closed_meanwhile() -> StoreClosedError:
    return StoreClosedError("this store was closed while the call was under way")
