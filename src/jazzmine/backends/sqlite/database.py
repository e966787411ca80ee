"""A database: one connection that writes for several callers at once, and some that read."""

from __future__ import annotations

import errno
import logging
import os
import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import TypeVar

from jazzmine.backends.sqlite import search
from jazzmine.backends.sqlite.connection import Connection, DatabaseFile, create_file
from jazzmine.backends.sqlite.errors import (
    DatabaseBusy,
    closed_meanwhile,
    is_busy,
    lock_timeout,
    translated,
)
from jazzmine.backends.sqlite.file_check import check_file, require_sqlite, warn_of_network
from jazzmine.backends.sqlite.migrations import Component, is_current, migrate, migrations
from jazzmine.backends.sqlite.transaction import Write, apply_all, begin, fail_late, undo
from jazzmine.deadline import Deadline

__all__ = ["Database"]

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

# SQLite's own pauses grow to 100 ms, which several processes that write would mostly wait.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.01

# SQLite empties its -wal file at 4 MB, unless reads overlap. From this size on, in bytes, a commit
# waits for the older reads; for so many ms at most, and every so many s at most.
_LARGE_LOG = 16 << 20
_EMPTYING_MS, _EMPTIED_EVERY = 200, 1.0

_IDLE_AT_MOST = 4

_IS_FLUSHED = attrgetter("flushed")

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
        lock: held by the thread that writes.
        has_search: whether messages are indexed in the transaction that stores them.
    """

    def __init__(
        self, path: str, components: Sequence[Component], timeout: float, synchronous: str
    ) -> None:
        self.path: str = os.path.realpath(path)
        self.has_search: bool = False
        self._components = components
        self._timeout = timeout
        self._synchronous = synchronous
        self._file = DatabaseFile(self.path)
        self._writer = Connection(self._file, synchronous)
        self.lock: threading.RLock = self._writer.lock
        self._idle: deque[Connection] = deque()
        self._closed = False
        self._has_log_to_empty = False
        self._next_emptying = Deadline(0.0)

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
        deadline = Deadline(self._timeout)
        try:
            while not self._prepare():
                self._pause(deadline)
        except (sqlite3.Error, OSError):
            self.close()
            raise

    def in_forked_process(self, new: Callable[[], T]) -> T:
        """Return the database to use in a forked process; `new` makes another one of this file."""
        return new()

    def is_stale(self) -> bool:
        """Whether reads have to wait for `refresh`."""
        return False

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Make the database up to date, as a change that is committed."""

    def close(self) -> None:
        """Close all connections; later calls raise `StoreClosedError`."""
        self._closed = True
        self._writer.close()
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()

    # Reads

    def read(self, query: Callable[[sqlite3.Connection, int], T], size: int) -> T:
        """Return the result of a query of one statement.

        Args:
            query: called with a connection and `size`.
            size: how many bytes of records it may read.

        Raises:
            StoreClosedError: the database was closed.
            LockTimeoutError: another process recovers the database, and does not end.
            OSError: the file cannot be read, or is damaged.
        """
        deadline = Deadline(self._timeout)
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
            reader = Connection(self._file, self._synchronous, self._writer)
        try:
            with reader.lock:
                found = query(reader.driver(), size)
                if reader.log is None:
                    reader.note_log()
        except BaseException as error:
            # Whatever it was doing: the next call opens another one.
            reader.close()
            if self._closed and isinstance(error, (sqlite3.Error, OSError)):
                raise closed_meanwhile() from None  # closing it removes its files
            if isinstance(error, sqlite3.Error):
                if is_busy(error):
                    raise DatabaseBusy from None
                raise translated(error, self.path) from error
            raise
        if len(self._idle) < _IDLE_AT_MOST:
            self._idle.append(reader)
        else:
            reader.close()
        if self._closed:
            self._close_idle()
        return found

    # Writes

    def commit(self, changes: Sequence[Write]) -> None:
        """Apply the changes in one transaction; each of them gets a result or an error.

        If another process writes, a change that has waited longer than `timeout` gets a
        `LockTimeoutError`, and the others stay unclaimed.

        Args:
            changes: called with a connection.

        Raises:
            OSError: the file could not be written; nothing changed.
        """
        with self.lock:
            if not self._try_commit(changes):
                fail_late(changes, self._timeout, partial(lock_timeout, self.path))
            elif self._has_log_to_empty or self._file.log_size > _LARGE_LOG:
                self._empty_log_now_and_then()

    def _try_commit(self, changes: Sequence[Write]) -> bool:
        if self._closed:
            raise closed_meanwhile()
        writer = self._writer
        try:
            connection = writer.driver()
            if connection.in_transaction:  # the one before was not ended
                connection.execute("ROLLBACK")
            writer.set_flush(any(map(_IS_FLUSHED, changes)))
        except sqlite3.Error as error:
            if is_busy(error):
                return False
            raise translated(error, self.path) from error
        if not begin(connection, self.path):
            return False
        if writer.log is None:
            writer.note_log()
        claimed = [change for change in changes if change.claim()]
        try:
            if not apply_all(connection, claimed, self.path):
                for change in claimed:
                    change.unclaim()
                return False
            if self.has_search:
                self.has_search = search.index_changes(connection)
            connection.execute("COMMIT")
        except BaseException as error:
            undo(connection)
            if isinstance(error, sqlite3.Error):
                raise translated(error, self.path) from error
            raise
        return True

    def purge(self, changes: Sequence[Write]) -> None:
        """Remove what was deleted from the database's files, where it may be left as raw bytes.

        Deleted values are overwritten, but pages that were split have copies of them. What cannot
        be removed now is logged; the -wal file is then emptied after a later write.

        Args:
            changes: they have nothing to apply. They stay unclaimed if others read or write, or if
                there is more to do, so that other calls may write in between.
        """
        with self.lock:
            done = self._closed or (self._merge() and self._rewrite() and self._empty_log())
        earliest = time.monotonic() - self._timeout
        for change in changes:
            if (done or change.since <= earliest) and change.claim() and not done:
                self._has_log_to_empty = True
                logger.warning(
                    "%s: deleted text may be left in the file or its -wal file, because other"
                    " processes write or read; it is removed from the -wal file later, and from the"
                    " file by the statement VACUUM",
                    self.path,
                )

    def _merge(self) -> bool:
        """Write a part of the index of words anew; return whether that was all of it."""
        if not self.has_search:
            return True
        try:
            return search.merge(self._writer.driver())
        except sqlite3.Error as error:
            if is_busy(error):
                return False
            raise translated(error, self.path) from error

    def _rewrite(self) -> bool:
        """Rewrite the file without its unused bytes if that is quick; return False if locked."""
        try:
            connection = self._writer.driver()
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
        except sqlite3.Error as error:
            if is_busy(error):
                return False
            raise translated(error, self.path) from error
        return True

    def _empty_log(self) -> bool:
        """Move all that was written to the file itself; return False if others read or write."""
        try:
            connection = self._writer.driver()
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            if is_busy(error):
                return False
            raise translated(error, self.path) from error
        if not busy:
            self._has_log_to_empty = False
        return not busy

    def _empty_log_now_and_then(self) -> None:
        """Empty the -wal file, which would grow for ever beside reads that overlap.

        New reads see all of it, so that it can be emptied once the older ones have ended.
        """
        if not self._next_emptying.expired:
            return
        self._next_emptying = Deadline(_EMPTIED_EVERY)
        try:
            connection = self._writer.driver()
            connection.execute(f"PRAGMA busy_timeout = {_EMPTYING_MS}")
            try:
                self._empty_log()
            finally:
                connection.execute("PRAGMA busy_timeout = 0")
        except (OSError, sqlite3.Error) as error:
            # What was committed is stored all the same.
            logger.debug("%s-wal is emptied later: %s", self.path, error)

    # Opening

    def _prepare(self) -> bool:
        """Bring the tables up to date, and return True, unless the database is locked."""
        try:
            with self.lock:
                connection = self._writer.driver()
                try:
                    for component in self._components:
                        if not is_current(connection, self.path, component):
                            self._migrate(connection, component)
                    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                    self.has_search = search.read_state(connection) is not None
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

    def _migrate(self, connection: sqlite3.Connection, component: Component) -> None:
        connection.execute("BEGIN IMMEDIATE")
        migrate(connection, self.path, component)
        connection.execute("COMMIT")
        with suppress(sqlite3.Error):
            # So that the versions can be read without the -wal file.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _pause(self, deadline: Deadline) -> None:
        if deadline.expired:
            raise lock_timeout(self.path, self._timeout)
        time.sleep(random.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))
