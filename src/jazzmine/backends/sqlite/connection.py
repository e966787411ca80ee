"""Connections to a database that no forked process inherits."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from contextlib import suppress
from typing import Protocol, TypeAlias
from urllib.parse import quote
from weakref import WeakSet

from jazzmine.backends.sqlite.functions import add_functions

__all__ = [
    "Connection",
    "DatabaseFile",
    "create_file",
    "prepare_for_forks",
    "require_not_owned",
]

# The pages that a connection keeps: those of the indexes' upper levels, above all.
_CACHE_KIB = 16_384

LogIdentity: TypeAlias = tuple[int, int, int, int]


class DatabaseFile:
    """The file at a path, which may be replaced while connections have it open.

    Args:
        path: the file, without symbolic links.

    Attributes:
        log_size: how many bytes its -wal file had when it was last looked at.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.log_size: int = 0
        self._paths = (f"{path}-wal", f"{path}-shm")
        self._opened: tuple[int, int] | None = None
        self._log: LogIdentity | None = None

    def log(self) -> LogIdentity | None:
        """Return what differs if its -wal or -shm file was replaced, or None if one is missing."""
        try:
            wal, shm = map(os.stat, self._paths)
        except FileNotFoundError:
            return None
        self.log_size = wal.st_size
        return wal.st_dev, wal.st_ino, shm.st_dev, shm.st_ino

    def require_own_log(self, file: tuple[int, int]) -> None:
        """Raise OSError if it was replaced, but not its -wal file: SQLite would mix the two."""
        # SQLite deletes the -wal file of an empty one.
        if self._opened in (None, file) or not os.path.getsize(self.path):
            return
        with suppress(FileNotFoundError):
            if os.path.getsize(f"{self.path}-wal") and self._log in (None, self.log()):
                reason = (
                    "it was replaced while it was open, but the -wal file beside it is that of the"
                    " former file: delete the -wal and -shm files"
                )
                raise OSError(errno.ESTALE, reason, self.path)

    def log_was_removed(self) -> OSError:
        """Return the error for a -wal or -shm file that was removed while it was open."""
        reason = (
            "its -wal or -shm file was removed while it was open: close it in all programs,"
            " which keeps what they have stored, and open it again"
        )
        return OSError(errno.ESTALE, reason, self.path)

    def note(self, file: tuple[int, int]) -> None:
        """Remember which file was opened, and its -wal file if it has one."""
        self._opened, self._log = file, self.log()


class Connection:
    """A connection that opens when it is used, and is closed while the process forks.

    SQLite's locks belong to a process, and its own record of them is wrong in a forked one:
    it would take the database for unused, and remove what another process writes. So before
    a fork each connection is closed, once no thread uses it, and both processes open their
    own with their next call.

    It opens again if another file is at its path, or the file is: SQLite would go on writing to
    one that was moved or removed.

    Args:
        file: it must exist; the connections of a store share it.
        synchronous: "full" if a commit waits for the disk, else "normal".
        writer: the connection that writes, if this one is to read only.

    Attributes:
        lock: held by the thread that uses the driver's connection. A context manager written in
            Python could be interrupted between acquiring it and the block that releases it.
        log: what differs if the -wal or -shm file is replaced that it has open; None before the
            driver's connection was used.
    """

    def __init__(
        self, file: DatabaseFile, synchronous: str, writer: Connection | None = None
    ) -> None:
        self._database = file
        self._synchronous = synchronous
        self._writer = writer
        self._driver: sqlite3.Connection | None = None
        self._file = (-1, -1)
        self.log: LogIdentity | None = None
        self._flushes: bool | None = None
        self.lock: threading.RLock = threading.RLock()
        prepare_for_forks(self)

    def driver(self) -> sqlite3.Connection:
        """Return the driver's connection, which autocommits and never waits for a lock.

        The caller holds `lock`.

        Raises:
            OSError: the file or its -wal file was removed, or only one of them was replaced.
            sqlite3.Error: the database cannot be opened.
        """
        status = os.stat(self._database.path)
        file = (status.st_dev, status.st_ino)
        if self._driver is None or file != self._file:
            self._database.require_own_log(file)
            writer = self._writer
            if writer is not None and writer.has_lost_log(file):
                raise self._database.log_was_removed()
            self.close()
            self._driver, self._file = self._open(), file
            self._flushes = self._synchronous == "full"
            self._database.note(file)
            self.log = None
        elif self.log is not None and self.log != self._database.log():
            # SQLite would go on writing to it.
            raise self._database.log_was_removed()
        return self._driver

    def has_lost_log(self, file: tuple[int, int]) -> bool:
        """Return whether it has this file open, and the -wal or -shm file was removed."""
        is_open = self._driver is not None and self._file == file and self.log is not None
        return is_open and self.log != self._database.log()

    def note_log(self) -> None:
        """Remember the -wal and -shm files; the driver's connection was used, and so has them open.

        SQLite removes them only when no connection is open. But a process loses its locks, by which
        others know of its connections, if it closes a file that it has opened itself:
        https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_
        """
        self.log = self._database.log()

    def set_flush(self, flush: bool) -> None:
        """Have commits wait for the disk or not, if the database waits for it at all."""
        flushes = flush and self._synchronous == "full"
        if self._driver is not None and self._flushes != flushes:
            self._flushes = None  # not known if this is interrupted
            self._driver.execute(f"PRAGMA synchronous = {'full' if flushes else 'normal'}")
            self._flushes = flushes

    def __del__(self) -> None:
        # Otherwise the driver warns of a connection that was not closed.
        if self._driver is not None:
            self.close()

    def close(self) -> None:
        """Close the driver's connection; the next use opens another."""
        with self.lock:
            driver, self._driver = self._driver, None
            if driver is not None:
                with suppress(sqlite3.Error):
                    driver.close()

    def _open(self) -> sqlite3.Connection:
        with _opening:
            driver = sqlite3.connect(
                f"file:{quote(os.fsencode(self._database.path))}?mode=rw",
                uri=True,
                timeout=0,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
        try:
            driver.execute("PRAGMA foreign_keys = ON")
            driver.execute("PRAGMA secure_delete = ON")
            driver.execute("PRAGMA trusted_schema = OFF")
            driver.execute(f"PRAGMA synchronous = {self._synchronous}")
            driver.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            add_functions(driver)
            if self._writer is not None:
                driver.execute("PRAGMA query_only = ON")
                # Stored text is read as UTF-8: it is parsed as it is.
                driver.text_factory = bytes
        except BaseException:
            driver.close()
            raise
        return driver

    def before_fork(self) -> None:
        """Wait for the thread that uses it, and close it."""
        self.lock.acquire()
        self.close()


def require_not_owned(lock: threading.RLock, path: str) -> None:
    """Raise RuntimeError if this thread holds the lock of a connection.

    Args:
        lock: that lock.
        path: what the error calls the database.
    """
    if lock._is_owned():  # type: ignore[attr-defined]  # as threading.Condition asks it
        raise RuntimeError(
            f"{path}: a function that this store calls, or a signal handler that interrupted one of"
            " its reads, called it to write or to close it, which would wait for itself"
        )


def create_file(path: str) -> None:
    """Create an empty file that only its owner may read and write, if there is no file.

    Raises:
        OSError: it cannot be created, or may not be written.
    """
    # Closing any descriptor of a file releases the locks that SQLite has on it in this process:
    # no other thread may open the database before this descriptor is closed.
    with _opening:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            if not os.access(path, os.W_OK):
                # SQLite would make a -shm file that may not be written either, and that stays so
                # when the rights of the database are mended.
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path) from None


class Forkable(Protocol):
    """A connection that no thread may use while the process forks."""

    lock: threading.RLock

    def before_fork(self) -> None:
        """Acquire the lock, and prepare for the fork."""


_registering = threading.RLock()
_opening = threading.RLock()
_connections: WeakSet[Forkable] = WeakSet()
_closed_for_fork: list[Forkable] = []


def prepare_for_forks(connection: Forkable) -> None:
    """Call a connection's `before_fork` before each fork, and release its lock afterwards."""
    with _registering:
        _connections.add(connection)


def _before_fork() -> None:
    # A thread that uses a connection may still need `_opening`, so that is acquired last.
    _registering.acquire()
    for connection in list(_connections):
        connection.before_fork()
        _closed_for_fork.append(connection)
    _opening.acquire()


def _after_fork() -> None:
    _opening.release()
    while _closed_for_fork:
        _closed_for_fork.pop().lock.release()
    _registering.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
