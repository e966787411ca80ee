"""Turn errors of the `sqlite3` module into those that the stores raise."""

from __future__ import annotations

import errno
import os
import sqlite3

from jazzmine.backends.files import unwritable
from jazzmine.errors import IntegrityError, LockTimeoutError, RecordTooLargeError, StoreClosedError

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_CODES = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EACCES,
    sqlite3.SQLITE_PERM: errno.EACCES,
    sqlite3.SQLITE_CANTOPEN: errno.EIO,
}
# Of a file that may not be written, or perhaps of another reason.
_FORBIDDEN = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN)
# Those that the module raises itself have no code.
_TOO_LARGE = ("string longer than INT_MAX bytes", "BLOB longer than")


class DatabaseBusy(Exception):
    """A read would have to wait for another thread or process."""


def error_code(error: Exception) -> int:
    """Return the code of an error, without its extension; 0 if it has none."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection holds a lock that the statement needs."""
    return error_code(error) in _BUSY


def closed_meanwhile() -> StoreClosedError:
    """Return the error for a call of a store that another thread has closed."""
    return StoreClosedError("this store was closed while the call was under way")


def lock_timeout(path: str, timeout: float) -> LockTimeoutError:
    """Return the error for a call that has waited for the database's lock for `timeout` s."""
    return LockTimeoutError(
        f"{path} was not free within {timeout:g} s: others write, or a process"
        " holds its lock and is stuck; nothing was written"
    )


def may_not_write(path: str) -> PermissionError:
    """Return the error for a file, one beside it or its folder that may not be written."""
    why = "the right to write is missing, which reading needs, too"
    return PermissionError(errno.EACCES, why, path)


def translated(error: Exception, path: str) -> Exception:
    """Return the error to raise for one that the `sqlite3` module raised.

    Args:
        error: an error of any kind; one that is not of that module is returned as it is.
        path: the file of the database.
    """
    text = str(error)
    code = error_code(error)
    if code == sqlite3.SQLITE_TOOBIG or (
        isinstance(error, (sqlite3.DataError, OverflowError)) and text.startswith(_TOO_LARGE)
    ):
        return RecordTooLargeError("SQLite takes less than 1 GB in one record")
    if not isinstance(error, sqlite3.Error) or isinstance(error, sqlite3.ProgrammingError):
        return error
    if is_busy(error):
        return LockTimeoutError(f"{path} is locked by another process; nothing was written")
    if code in _FORBIDDEN and (forbidden := unwritable(path)):
        return may_not_write(forbidden)
    if code in _CODES:
        number = _CODES[code]
        return OSError(number, f"{os.strerror(number)} ({text})", path)
    if isinstance(error, sqlite3.IntegrityError):  # of a constraint of the application
        return IntegrityError(f"{path}: {text}")
    return OSError(errno.EIO, f"the database is damaged, or not as it should be: {text}", path)
