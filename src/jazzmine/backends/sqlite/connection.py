"""Connections to a database that no forked process inherits."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakSet

from jazzmine.backends.files import is_read_only
from jazzmine.backends.sqlite.functions import add_functions

__all__ = ["Connection", "create_file", "file_uri", "prepare_for_forks"]

# The pages that a connection keeps: those of the indexes' upper levels, above all.
_CACHE_KIB = 16_384


def file_uri(path: str, parameters: str) -> str:
    """Return the URI of a file for SQLite, on Windows too."""
    return f"{Path(path).as_uri()}?{parameters}"


class Connection:
    """A connection that opens when it is used, and is closed while the process forks.

    SQLite's locks belong to a process, and its own record of them is wrong in a forked one:
    it would take the database for unused, and remove what another process writes. So before
    a fork each connection is closed, once no thread uses it, and the process opens it again with
    its next call.

    Args:
        path: the file, without symbolic links; it must exist.
        synchronous: "full" if a commit waits for the disk, else "normal".
        reads: whether it is to read only; it then gives text as UTF-8, which is parsed as it is.

    Attributes:
        lock: held by the thread that uses the driver's connection.
    """

    def __init__(self, path: str, synchronous: str, *, reads: bool = False) -> None:
        self._path = path
        self._synchronous = synchronous
        self._reads = reads
        self._driver: sqlite3.Connection | None = None
        self.lock: threading.Lock = threading.Lock()
        prepare_for_forks(self)

    def driver(self) -> sqlite3.Connection:
        """Return the driver's connection, which autocommits and never waits for a lock.

        The caller holds `lock`.

        Raises:
            OSError: the file was removed.
            sqlite3.Error: the database cannot be opened.
        """
        if self._driver is None:
            os.stat(self._path)
            self._driver = self._open()
        return self._driver

    def __del__(self) -> None:
        # Otherwise the driver warns of a connection that was not closed.
        if self._driver is not None:
            self._driver.close()

    def close(self) -> None:
        """Close the driver's connection; the next use opens another. The caller holds `lock`."""
        driver, self._driver = self._driver, None
        if driver is not None:
            with suppress(sqlite3.Error):
                driver.close()

    def _open(self) -> sqlite3.Connection:
        mode = "rw"
        if is_read_only(self._path):
            # SQLite could not make the file of its locks, which an immutable database lacks.
            mode = "ro" if os.path.exists(f"{self._path}-wal") else "ro&immutable=1"
        with _opening:
            driver = sqlite3.connect(
                file_uri(self._path, f"mode={mode}"),
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
            # The folder for temporary files may be read-only, as in many containers, and would keep
            # copies of texts that are erased later.
            driver.execute("PRAGMA temp_store = MEMORY")
            driver.execute(f"PRAGMA synchronous = {self._synchronous}")
            driver.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            if sys.platform == "darwin":
                # Without it, macOS keeps what is flushed in the cache of the disk.
                driver.execute("PRAGMA fullfsync = ON")
                driver.execute("PRAGMA checkpoint_fullfsync = ON")
            add_functions(driver)
            if self._reads:
                driver.execute("PRAGMA query_only = ON")
                driver.text_factory = bytes
        except BaseException:
            driver.close()
            raise
        return driver

    def before_fork(self) -> None:
        """Wait for the thread that uses it, and close it."""
        self.lock.acquire()
        self.close()


def create_file(path: str) -> None:
    """Create an empty file that only its owner may read and write, if there is no file.

    Raises:
        OSError: it cannot be created, or may not be written.
    """
    # Closing any descriptor of a file releases the locks that SQLite has on it in this process:
    # no other thread may open the database before this descriptor is closed.
    with _opening:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            if not is_read_only(path) and not os.access(path, os.W_OK):
                # SQLite would make a -shm file that may not be written either, and that stays so
                # when the rights of the database are mended.
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path) from None


class Forkable(Protocol):
    """A connection that no thread may use while the process forks."""

    lock: Any

    def before_fork(self) -> None:
        """Acquire the lock, and prepare for the fork."""


_registering = threading.RLock()  # a finalizer may make a connection meanwhile
_opening = threading.Lock()
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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
