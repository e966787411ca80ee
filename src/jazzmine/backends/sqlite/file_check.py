"""Look at the file of a database before it is opened, without changing it or its folder."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing

from jazzmine.backends.files import require_one_name, require_regular
from jazzmine.backends.sqlite.connection import file_uri
from jazzmine.backends.sqlite.errors import error_code, translated
from jazzmine.errors import ConfigurationError

APPLICATION_ID = 0x4A5A4D4E  # "JZMN"
"""The number in the header of every database of this library."""

FORMAT = 1
"""The `user_version` of a database: what a version must know before it reads any table."""

_OLDEST = (3, 35, 0)

# A database that is being created in this moment may look like that of another application, and
# one whose last connection is closed in this moment like a damaged one.
_LOOKS, _SECONDS_BETWEEN = 3, 0.02

# https://www.sqlite.org/fileformat2.html#the_rollback_journal
_JOURNAL = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"

_VERSION = "SELECT coalesce(max(version), 0) FROM jazzmine_migrations WHERE component = ?"


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
    if not require_regular(path):
        return 0
    require_one_name(path)
    if _is_half_created(path):
        return 0
    for _ in range(_LOOKS - 1):
        try:
            return _check(path, component, version)
        except (ConfigurationError, OSError):
            time.sleep(_SECONDS_BETWEEN)
    return _check(path, component, version)


def _check(path: str, component: str, version: int) -> int:
    # An immutable database is read without its -wal file and without locks: no file is made,
    # and SQLite, unlike open() and close(), keeps the locks of this process's connections.
    uri = file_uri(path, "mode=ro&immutable=1")
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            if _number(connection, "PRAGMA application_id") != APPLICATION_ID:
                _require_empty(connection, path)
            stored_format = _number(connection, "PRAGMA user_version")
            stored = stored_version(connection, component)
    except sqlite3.DatabaseError as error:
        if os.path.exists(f"{path}-wal"):
            # A checkpoint may have been interrupted: the file is read together with its -wal file,
            # which a database has only after its migrations.
            return version
        if error_code(error) == sqlite3.SQLITE_NOTADB:
            raise ConfigurationError(f"{path} is no SQLite database") from error
        raise translated(error, path) from error
    if stored_format > FORMAT or stored > version:
        raise ConfigurationError(
            f"{path} was written by a newer version of jazzmine; this one leaves it as it is"
        )
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


def _require_empty(connection: sqlite3.Connection, path: str) -> None:
    """Raise `ConfigurationError` for a database without our number, unless it is empty."""
    found = _number(connection, "PRAGMA application_id")
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if not (found or tables or _number(connection, "PRAGMA user_version")):
        return
    text = f"{path} is a database of another application"
    if not found and "jazzmine_migrations" in tables:
        text += (
            ", or was restored from a .dump, which loses two numbers; then run PRAGMA"
            f" application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT};"
        )
    raise ConfigurationError(text)


def stored_version(connection: sqlite3.Connection, component: str) -> int:
    """Return the last migration of a component that a database has, or 0."""
    if _number(connection, "PRAGMA application_id") != APPLICATION_ID:
        return 0
    return _number(connection, _VERSION, component)


def _number(connection: sqlite3.Connection, query: str, *parameters: str) -> int:
    number: int = connection.execute(query, parameters).fetchone()[0]
    return number
