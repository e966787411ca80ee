"""A database in a file: one connection that writes for several callers, and some that read."""

from __future__ import annotations

import errno
import logging
import os
import random
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from jazzmine.backends.sqlite import search
from jazzmine.backends.sqlite.connection import Connection, create_file
from jazzmine.backends.sqlite.errors import (
    DatabaseBusy,
    closed_meanwhile,
    is_busy,
    lock_timeout,
    translated,
)
from jazzmine.backends.sqlite.file_check import check_file, require_sqlite, stored_version
from jazzmine.backends.sqlite.migrations import Component, migrate, migrations
from jazzmine.backends.sqlite.writer import Call, apply_all
from jazzmine.deadline import Deadline

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

# SQLite's own pauses grow to 100 ms, which several processes that write would mostly wait.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.01

_IDLE_AT_MOST = 4

# Rewriting so many bytes takes about a second.
_QUICKLY_REWRITTEN = 128 << 20


class Database:
    """The database in a file, shared by threads and processes.

    The writes of one process use one connection, one after another. Each reading call has a
    connection of its own, and never waits for a write.

    Args:
        path: the file, which need not exist; a symbolic link is followed, and stays a link.
        components: the tables that it is opened for.
        timeout: how long, in s, a call waits for locks of other processes.
        synchronous: "full" if a write waits for the disk, else "normal".

    Attributes:
        has_search: whether messages are indexed in the transaction that stores them.
    """

    def __init__(
        self, path: str, components: Sequence[Component], timeout: float, synchronous: str
    ) -> None:
        self.path: str = os.path.realpath(path)
        self.timeout: float = timeout
        self.has_search: bool = False
        self._components = components
        self._synchronous = synchronous
        self._writer = Connection(self.path, synchronous)
        self._idle: deque[Connection] = deque()
        self._closed = False
        self._file: tuple[int, int] | None = None

    def pending(self) -> list[str]:
        """Return what `open` would create or change; nothing is changed.

        Raises:
            ConfigurationError, OSError: as in `open`.
        """
        pending: list[str] = []
        for component in self._components:
            known = migrations(component.name)
            stored = check_file(self.path, component.name, len(known))
            later = known[stored:]
            pending += [f"apply {step.version:04} {step.name} to {self.path}" for step in later]
        return pending if os.path.exists(self.path) else [f"create the file {self.path}"]

    def open(self) -> None:
        """Create the file and the tables if they do not exist, and bring them up to date.

        Raises:
            ConfigurationError: the file belongs to another application or to a newer version,
                and was not changed.
            LockTimeoutError: another process holds the database's lock.
            OSError: the file cannot be read, created or written.
        """
        require_sqlite()
        for component in self._components:
            check_file(self.path, component.name, len(migrations(component.name)))
        create_file(self.path)
        status = os.stat(self.path)
        self._file = status.st_dev, status.st_ino
        deadline = Deadline(self.timeout)
        try:
            while not self._prepare():
                self._pause(deadline)
        except (sqlite3.Error, OSError):
            self.close()
            raise

    def _prepare(self) -> bool:
        """Bring the tables up to date, and return True, unless the database is locked."""
        try:
            with self._writer.lock:
                connection = self._writer.driver or self._writer.open()
                try:
                    for component in self._components:
                        known = len(migrations(component.name))
                        if stored_version(connection, component.name) < known:
                            _migrate(connection, component)
                    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                    self.has_search = search.read_state(connection) is not None
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            if is_busy(error):
                return False
            raise translated(error, self.path) from error
        if mode != "wal":
            raise OSError(errno.ENOTSUP, "its file system does not support the WAL mode", self.path)
        return True

    def close(self) -> None:
        """Close all connections; later calls raise `StoreClosedError`."""
        self._closed = True
        self._writer.close()
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()

    def _pause(self, deadline: Deadline) -> None:
        if deadline.expired:
            raise lock_timeout(self.path, self.timeout)
        time.sleep(random.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))

    def _require_same_file(self) -> None:
        """Raise OSError if the file is not the one that was opened: SQLite would use that one."""
        status = os.stat(self.path)
        if (status.st_dev, status.st_ino) != self._file:
            reason = "it was replaced while it was open: close the store, and open it again"
            raise OSError(errno.ESTALE, reason, self.path)

    # Reads

    def read(self, deadline: Deadline, query: Callable[..., T], *arguments: object) -> T:
        """Return the result of a query of one statement.

        Args:
            deadline: until when it waits for another process.
            query: called with a connection and the arguments.
            arguments: those of the query.

        Raises:
            StoreClosedError: the database was closed.
            LockTimeoutError: another process recovers the database, and does not end.
            OSError: the file cannot be read, or is damaged.
        """
        while True:
            try:
                return self.read_now(query, *arguments)
            except DatabaseBusy:
                self._pause(deadline)

    def read_now(self, query: Callable[..., T], *arguments: object) -> T:
        """Do the same as `read`, but raise `DatabaseBusy` instead of waiting."""
        if self._closed:
            raise closed_meanwhile()
        try:
            reader = self._idle.pop()
        except IndexError:
            self._require_same_file()
            reader = Connection(self.path, self._synchronous, reads=True)
        try:
            with reader.lock:
                result = query(reader.driver or reader.open(), *arguments)
        except BaseException as error:
            reader.close()  # whatever it was doing: the next call opens another one
            if isinstance(error, sqlite3.Error):
                if is_busy(error):
                    raise DatabaseBusy from None
                raise translated(error, self.path) from error
            raise
        # A later read uses its cache, which has what is read often.
        if len(self._idle) < _IDLE_AT_MOST and not self._closed:
            self._idle.append(reader)
        else:
            reader.close()
        return result

    # Writes

    def commit(self, calls: Sequence[Call]) -> bool:
        """Make the changes of some calls in one transaction.

        Args:
            calls: each that was not cancelled gets a result or an error.

        Returns:
            False if another process writes; no call was begun.

        Raises:
            OSError: the file could not be written; nothing changed.
        """
        self._require_same_file()
        with self._writer.lock:
            try:
                connection = self._writer.driver or self._writer.open()
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                if is_busy(error):
                    return False
                raise translated(error, self.path) from error
            try:
                apply_all(connection, calls, self.path)
                if self.has_search:
                    self.has_search = search.index_changes(connection)
                connection.execute("COMMIT")
            except BaseException as error:
                _undo(connection)
                if connection.in_transaction:
                    self._writer.close()
                if isinstance(error, sqlite3.Error):
                    raise translated(error, self.path) from error
                raise
        return True

    def purge(self, deadline: Deadline) -> None:
        """Remove deleted records from the files, where they may be left as raw bytes.

        A step that is done is not repeated: rewriting a file that others read makes its log as
        much longer. Others may write between two steps.

        Args:
            deadline: until when it waits for others that read or write; the log then says what is
                left to do.
        """
        self._require_same_file()
        steps = [self._rewrite, _empty_log]
        if self.has_search:
            steps.insert(0, search.merge)
        for step in steps:
            while not self._is_done(step):
                if deadline.expired:
                    logger.warning(
                        "%s: deleted text may be left in the file or its -wal file, because other"
                        " processes write or read; the statements VACUUM and PRAGMA"
                        " wal_checkpoint(TRUNCATE) remove it",
                        self.path,
                    )
                    return
                time.sleep(random.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))

    def _is_done(self, step: Callable[[sqlite3.Connection], bool]) -> bool:
        """Take a step; return False if others read or write, or if there is more to do."""
        try:
            with self._writer.lock:
                return self._closed or step(self._writer.driver or self._writer.open())
        except sqlite3.Error as error:
            if is_busy(error):
                return False
            raise translated(error, self.path) from error

    def _rewrite(self, connection: sqlite3.Connection) -> bool:
        """Rewrite the file without its unused bytes if that is quick.

        Deleted values are overwritten, but pages that were split have copies of them.
        """
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        if pages * size <= _QUICKLY_REWRITTEN:
            connection.execute("VACUUM")
        else:
            # It would keep all others from writing for seconds.
            logger.warning(
                "%s: copies of deleted text may be left in unused parts of its pages, because"
                " the file is large; the statement VACUUM removes them, while nothing can be"
                " written",
                self.path,
            )
        return True


def _migrate(connection: sqlite3.Connection, component: Component) -> None:
    connection.execute("BEGIN IMMEDIATE")
    migrate(connection, component)
    connection.execute("COMMIT")
    with suppress(sqlite3.Error):
        # So that the versions can be read without the -wal file.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _undo(connection: sqlite3.Connection) -> None:
    """Make sure that a transaction which failed has no effect after a crash, either.

    If the disk failed to flush it, the end of the -wal file holds it as a whole, and would be
    read after a crash. The next transaction is written over it.
    """
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version}")


def _empty_log(connection: sqlite3.Connection) -> bool:
    """Move all that was written to the file itself; return False if others read or write."""
    (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy
