"""Look at the file of a database before it is opened, without changing it or its folder."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import stat
import time
from contextlib import closing, suppress

from jazzmine.backends.files import require_folder, require_one_name
from jazzmine.backends.sqlite.connection import file_uri
from jazzmine.backends.sqlite.errors import error_code, translated
from jazzmine.errors import ConfigurationError

__all__ = [
    "APPLICATION_ID",
    "FORMAT",
    "SEARCH_FORMAT",
    "check_file",
    "newer",
    "require_ours",
    "require_sqlite",
    "warn_of_network",
]

logger: logging.Logger = logging.getLogger(__name__)

APPLICATION_ID = 0x4A5A4D4E  # "JZMN"
"""The number in the header of every database of this library."""

FORMAT = 1
"""The `user_version` of a database: what a version must know before it reads any table."""

SEARCH_FORMAT = 2
"""That of one with a search index, which each program that writes must know."""

_OLDEST = (3, 35, 0)

# A database that is being created in this moment may look like that of another application, and
# one whose last connection is closed in this moment like a damaged one.
_LOOKS, _SECONDS_BETWEEN = 3, 0.02

# https://www.sqlite.org/fileformat2.html#the_rollback_journal
_JOURNAL = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"

_NETWORK_TYPES = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "afs",
    "ceph",
    "lustre",
    "gfs",
    "fuse.blobfuse",
    "fuse.gcsfuse",
    "fuse.glusterfs",
    "fuse.juicefs",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.sshfs",
)


def require_sqlite() -> None:
    """Raise `ConfigurationError` if Python was built with an SQLite that is too old."""
    if sqlite3.sqlite_version_info < _OLDEST:
        wanted = ".".join(map(str, _OLDEST[:2]))
        raise ConfigurationError(
            f"SQLite {wanted} or newer is needed, and this Python has {sqlite3.sqlite_version}"
        )


def check_file(path: str, component: str, version: int) -> int:
    """Return the last migration of a component that the database in a file has, or 0.

    Args:
        path: the file, without symbolic links; it need not exist.
        component: whose tables are going to be used.
        version: the last migration of the component that this version knows.

    Raises:
        ConfigurationError: it belongs to another application or to a newer version.
        OSError: it or its folder cannot be read.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        require_folder(path)
        return 0
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    require_one_name(path)
    if _is_half_created(path):
        return 0
    for look in range(_LOOKS):
        try:
            return _check(path, component, version)
        except (ConfigurationError, OSError):
            if look == _LOOKS - 1:
                raise
            time.sleep(_SECONDS_BETWEEN)
    raise AssertionError("the last look returns or raises")


def _check(path: str, component: str, version: int) -> int:
    # An immutable database is read without its -wal file and without locks: no file is made,
    # and SQLite, unlike open() and close(), keeps the locks of this process's connections.
    uri = file_uri(path, "mode=ro&immutable=1")
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            found = _number(connection, "PRAGMA application_id")
            if found != APPLICATION_ID:
                require_ours(connection, path)
                return 0
            stored_format = _number(connection, "PRAGMA user_version")
            stored: int = 0
            with suppress(sqlite3.Error):
                sql = "SELECT max(version) FROM jazzmine_migrations WHERE component = ?"
                stored = connection.execute(sql, [component]).fetchone()[0] or 0
    except sqlite3.DatabaseError as error:
        if os.path.exists(f"{path}-wal"):
            # A checkpoint may have been interrupted: the file is read together with its -wal file,
            # which a database has only after its migrations.
            return version
        if error_code(error) == sqlite3.SQLITE_NOTADB:
            raise ConfigurationError(f"{path} is no SQLite database") from error
        raise translated(error, path) from error
    if stored_format > SEARCH_FORMAT or stored > version:
        raise newer(path)
    return stored


def _is_half_created(path: str) -> bool:
    """Return whether a process was killed while it created the database.

    SQLite makes the file empty again when it is opened: its journal says that it had no pages.
    """
    try:
        with open(f"{path}-journal", "rb") as journal:
            header = journal.read(20)
    except OSError:
        return False
    return header.startswith(_JOURNAL) and header[16:20] == bytes(4)


def require_ours(connection: sqlite3.Connection, path: str) -> None:
    """Raise `ConfigurationError` for a database without our number, unless it is empty."""
    found = _number(connection, "PRAGMA application_id")
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if not (found or tables or _number(connection, "PRAGMA user_version")):
        return
    text = f"{path} is a database of another application"
    if not found and "jazzmine_migrations" in tables:
        stored_format = SEARCH_FORMAT if "search_state" in tables else FORMAT
        text += (
            ", or was restored from a .dump, which loses two numbers; then run PRAGMA"
            f" application_id = {APPLICATION_ID}; PRAGMA user_version = {stored_format};"
        )
    raise ConfigurationError(text)


def newer(path: str) -> ConfigurationError:
    """Return the error for a database that this version cannot read."""
    return ConfigurationError(
        f"{path} was written by a newer version of jazzmine; this one leaves it as it is"
    )


def _number(connection: sqlite3.Connection, query: str) -> int:
    number: int = connection.execute(query).fetchone()[0]
    return number


def warn_of_network(path: str) -> None:
    """Log a warning if the file lies on a network file system, where this can be told."""
    kind = _file_system(path)
    if kind is not None and kind.startswith(_NETWORK_TYPES):
        logger.warning(
            "%s lies on a network file system (%s): processes of several machines would damage"
            " it, and its locks may not work; use PostgreSQL or MongoDB there",
            path,
            kind,
        )


def _file_system(path: str, mounts: str = "/proc/self/mounts") -> str | None:
    """Return the type of the file system of a path, or None if the system does not say."""
    longest, kind = "", None
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                _, point, found, *_ = line.split(" ")
                point = point.replace("\\040", " ").rstrip("/")
                if path.startswith(f"{point}/") and len(point) >= len(longest):
                    longest, kind = point, found
    except (OSError, ValueError):
        return None
    return kind
