"""A database: one connection that writes for several callers at once, and some that read."""

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
from functools import partial
from typing import TypeVar

from jazzmine.backends.files import is_read_only
from jazzmine.backends.sqlite import search
from jazzmine.backends.sqlite.connection import Connection, create_file
from jazzmine.backends.sqlite.errors import (
    DatabaseBusy,
    closed_meanwhile,
    is_busy,
    lock_timeout,
    translated,
)
from jazzmine.backends.sqlite.file_check import check_file, require_sqlite, warn_of_network
from jazzmine.backends.sqlite.migrations import Component, is_current, migrate, migrations
from jazzmine.backends.sqlite.queries import TooLarge
from jazzmine.backends.sqlite.writer import Call, apply_all
from jazzmine.deadline import Deadline
from jazzmine.errors import NotFoundError

__all__ = ["Database"]

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

# SQLite's own pauses grow to 100 ms, which several processes that write would mostly wait.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.01

# SQLite empties its -wal file at 4 MB, unless reads overlap. From this size on, in bytes, a commit
# waits for the older reads; for so many ms at most. That is looked at every so many s.
_LARGE_LOG = 16 << 20
_EMPTYING_MS, _EMPTIED_EVERY = 200, 1.0

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
        self._file: os.stat_result | None = None
        self._next_look = 0.0
        self._largest_log = _LARGE_LOG

    def pending(self) -> list[str]:
        """Return what `open` would create or change; nothing is changed.

        Raises:
            ConfigurationError, OSError: as in `open`.
        """
        pending: list[str] = []
        for component in self._components:
            known = migrations(component.name)
            stored = check_file(self.path, component.name, len(known))
            later = [step for step in known if step.version > stored]
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
        warn_of_network(self.path)
        create_file(self.path)
        self._file = os.stat(self.path)
        deadline = Deadline(self.timeout)
        try:
            while not self._prepare():
                self._pause(deadline)
        except (sqlite3.Error, OSError):
            self.close()
            raise

    def close(self) -> None:
        """Close all connections; later calls raise `StoreClosedError`."""
        self._closed = True
        with self._writer.lock:
            self._writer.close()
        while self._idle:
            with suppress(IndexError):
                _close(self._idle.pop())

    # Reads

    def read(
        self, query: Callable[[sqlite3.Connection, int], T], size: int, deadline: Deadline
    ) -> T:
        """Return the result of a query of one statement.

        Args:
            query: called with a connection and `size`.
            size: how many bytes of records it may read.
            deadline: until when it waits for another process.

        Raises:
            StoreClosedError: the database was closed.
            LockTimeoutError: another process recovers the database, and does not end.
            OSError: the file cannot be read, or is damaged.
        """
        while True:
            try:
                return self.read_now(query, size)
            except DatabaseBusy:
                self._pause(deadline)

    def read_now(self, query: Callable[[sqlite3.Connection, int], T], size: int) -> T:
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
                found = query(reader.driver(), size)
        except (NotFoundError, TooLarge):
            self._release(reader)
            raise
        except BaseException as error:
            _close(reader)  # whatever it was doing: the next call opens another one
            if isinstance(error, sqlite3.Error):
                if is_busy(error):
                    raise DatabaseBusy from None
                raise translated(error, self.path) from error
            raise
        self._release(reader)
        return found

    def _release(self, reader: Connection) -> None:
        """Let a later read use the connection, whose cache has what is read often."""
        if len(self._idle) < _IDLE_AT_MOST and not self._closed:
            self._idle.append(reader)
        else:
            _close(reader)

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
                connection = self._writer.driver()
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
            if time.monotonic() >= self._next_look:
                self._empty_large_log(connection)
        return True

    def _require_same_file(self) -> None:
        """Raise OSError if the file is not the one that was opened: SQLite would use that one."""
        if self._file is None or not os.path.samestat(os.stat(self.path), self._file):
            reason = "it was replaced while it was open: close the store, and open it again"
            raise OSError(errno.ESTALE, reason, self.path)

    def _empty_large_log(self, connection: sqlite3.Connection) -> None:
        """Empty the -wal file, which would grow for ever beside reads that overlap.

        New reads see all of it, so that it can be emptied once the older ones have ended.
        """
        self._next_look = time.monotonic() + _EMPTIED_EVERY
        try:
            if os.path.getsize(f"{self.path}-wal") < self._largest_log:
                return
            connection.execute(f"PRAGMA busy_timeout = {_EMPTYING_MS}")
            try:
                if _empty_log(connection):
                    self._largest_log = _LARGE_LOG
            finally:
                connection.execute("PRAGMA busy_timeout = 0")
        except (OSError, sqlite3.Error) as error:
            # What was committed is stored all the same.
            logger.debug("%s-wal is emptied later: %s", self.path, error)

    def purge_steps(self) -> Sequence[Callable[[], bool]]:
        """Return what removes deleted records from the files, where they may be left as raw bytes.

        Each step is repeated until it returns True: it returns False if others read or write, or
        if there is more to do, so that other calls may write in between. A step that is done is
        not repeated: rewriting a file that others read makes its log as much longer.
        """
        self._require_same_file()
        self._largest_log = 0  # a later write tries it again
        steps = [self._rewrite, _empty_log]
        if self.has_search:
            steps.insert(0, search.merge)
        return [partial(self._purge, step) for step in steps]

    def _purge(self, step: Callable[[sqlite3.Connection], bool]) -> bool:
        writer = Connection(self.path, self._synchronous)
        try:
            with writer.lock:
                return step(writer.driver())
        except sqlite3.Error as error:
            if is_busy(error):
                return False
            raise translated(error, self.path) from error
        finally:
            _close(writer)

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

    # Opening

    def _prepare(self) -> bool:
        """Bring the tables up to date, and return True, unless the database is locked."""
        try:
            with self._writer.lock:
                connection = self._writer.driver()
                try:
                    for component in self._components:
                        if not is_current(connection, self.path, component):
                            self._migrate(connection, component)
                    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                    if is_read_only(self.path):
                        mode = "wal"  # which an immutable database does not say
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

    def _migrate(self, connection: sqlite3.Connection, component: Component) -> None:
        connection.execute("BEGIN IMMEDIATE")
        migrate(connection, self.path, component)
        connection.execute("COMMIT")
        with suppress(sqlite3.Error):
            # So that the versions can be read without the -wal file.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _pause(self, deadline: Deadline) -> None:
        if deadline.expired:
            raise lock_timeout(self.path, self.timeout)
        time.sleep(random.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))


def _close(connection: Connection) -> None:
    with connection.lock:
        connection.close()


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
