"""Connections to a database that no forked process inherits."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from jazzmine.backends.sqlite.errors import may_not_write
from jazzmine.backends.sqlite.functions import add_functions

# The pages that a connection keeps: those of the indexes' upper levels, above all.
_CACHE_KIB = 16_384


def file_uri(path: str, parameters: str) -> str:
    """Return the URI of a file for SQLite, on Windows too."""
    return f"{Path(path).as_uri()}?{parameters}"


def as_text(value: str | bytes) -> str:
    """Return a text, which connections that only read give as UTF-8."""
    return value if isinstance(value, str) else value.decode()


class Connection:
    """A connection that opens when it is used, and is closed while the process forks.

    SQLite's locks belong to a process, and its own record of them is wrong in a forked one:
    it would take the database for unused, and remove what another process writes. So before
    a fork each connection is closed, once no thread uses it, and the process opens it again with
    its next call. A database in memory stays open: no thread uses it, so SQLite's own locks are
    free in both processes.

    Args:
        path: the file, without symbolic links, which must exist; None is a database in memory.
        synchronous: "full" if a commit waits for the disk, else "normal".
        reads: whether it is to read only; it then gives text as UTF-8, which is parsed as it is.

    Attributes:
        driver: the driver's connection, which autocommits and never waits for a lock, or None.
        lock: held by the thread that uses the driver's connection. Only its owner can release it,
            so that an interrupted call need not know whether it holds the lock.
    """

    def __init__(self, path: str | None, synchronous: str, *, reads: bool = False) -> None:
        self._path = path
        self._synchronous = synchronous
        self._reads = reads
        self.driver: sqlite3.Connection | None = None
        self.lock: threading.RLock = threading.RLock()
        with _registering:
            _connections.add(self)

    def __del__(self) -> None:
        # Otherwise the driver warns of a connection that was not closed.
        if self.driver is not None:
            self.driver.close()

    def open(self) -> sqlite3.Connection:
        """Open the driver's connection. The caller holds `lock`."""
        with _opening:
            driver = sqlite3.connect(
                ":memory:" if self._path is None else file_uri(self._path, "mode=rw"),
                uri=self._path is not None,
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
        self.driver = driver
        return driver

    def close(self) -> None:
        """Close the driver's connection; `open` opens another."""
        with self.lock:
            driver, self.driver = self.driver, None
            if driver is not None:
                with suppress(sqlite3.Error):
                    driver.close()

    def before_fork(self) -> None:
        """Wait for the thread that uses it, and close it unless that would lose the database."""
        self.lock.acquire()
        if self._path is not None:
            self.close()


def create_file(path: str) -> None:
    """Create an empty file that only its owner may read and write, if there is no file.

    Raises:
        OSError: it cannot be created, or may not be written.
    """
    # Closing any descriptor of a file releases the locks that SQLite has on it in this process:
    # no other thread may open the database before this descriptor is closed.
    with _opening, suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    if not os.access(path, os.W_OK):
        # The -wal and -shm files of a reader would keep those from writing who may.
        raise may_not_write(path)


_registering = threading.RLock()  # a finalizer may make a connection meanwhile
_opening = threading.Lock()
_connections: WeakSet[Connection] = WeakSet()
_held_for_fork: list[Connection] = []


def _before_fork() -> None:
    # A thread that uses a connection may still need `_opening`, so that is acquired last.
    _registering.acquire()
    for connection in list(_connections):
        connection.before_fork()
        _held_for_fork.append(connection)
    _opening.acquire()


def _after_fork() -> None:
    _opening.release()
    while _held_for_fork:
        _held_for_fork.pop().lock.release()
    _registering.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
