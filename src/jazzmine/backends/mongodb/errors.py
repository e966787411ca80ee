"""Errors of PyMongo: the transient ones, and their translation into errors of ours."""

from __future__ import annotations

import re
from typing import Any

from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    DocumentTooLarge,
    DuplicateKeyError,
    InvalidOperation,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from jazzmine.errors import (
    IntegrityError,
    RecordTooLargeError,
    StoreClosedError,
    StoreUnavailableError,
)

# https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml
_UNAUTHORIZED = 13
_AUTHENTICATION_FAILED = 18
_DUPLICATE_KEY = 11000
# Atlas has one code for a wrong password, a missing right and a quota; its texts name no document.
_ATLAS = 8000
_TOO_LARGE = frozenset({10334, 17419, 17420})


class ServerNotFoundError(StoreUnavailableError, ServerSelectionTimeoutError):
    """No server for the call was found before the deadline."""


def is_duplicate(error: BaseException | None) -> bool:
    """Return whether a write failed because a unique value is stored already."""
    return isinstance(error, DuplicateKeyError) or _DUPLICATE_KEY in _codes(error)


def translated(error: PyMongoError | DocumentTooLarge, servers: str, *, reached: bool) -> Exception:
    """Return our error for an error of the driver.

    Args:
        servers: the names of the servers.
        reached: whether the driver knows a server for the call after the last attempt.
    """
    codes = _codes(error)
    if isinstance(error, DocumentTooLarge) or codes & _TOO_LARGE:
        return RecordTooLargeError("the record is larger than 16 MiB as a MongoDB document")
    if is_duplicate(error):
        return IntegrityError(f"{_taken(error)}; nothing was written")
    # The deadline may also have passed between two searches for a server.
    is_lost = isinstance(error, ConnectionFailure) and not reached
    if is_lost or isinstance(error, ServerSelectionTimeoutError):
        return _unreachable(error, servers)
    if isinstance(error, InvalidOperation) and "after close" in str(error):
        return StoreClosedError("this store was closed during the call")
    return StoreUnavailableError(f"MongoDB at {servers}{_reason(error, codes)}")


def _reason(error: PyMongoError, codes: set[int]) -> str:
    if isinstance(error, ConfigurationError):
        # Raised when a client first connects: DNS has no servers for a mongodb+srv URI.
        return " cannot be found"
    if not isinstance(error, OperationFailure) or error.timeout:
        return " did not answer in time"
    if _AUTHENTICATION_FAILED in codes:
        return " refused the user name or password"
    if _UNAUTHORIZED in codes:  # the server's text may have the whole command
        return ": the user lacks a right; grant the role readWrite"
    if _ATLAS in codes:
        return f": {text_of(error)}"
    names = ", ".join(sorted(map(str, codes))) or type(error).__name__
    return f" failed with error {names}"


def text_of(error: OperationFailure) -> str:
    """Return the server's own text of an error."""
    return str((error.details or {}).get("errmsg", error))


def _unreachable(error: PyMongoError, servers: str) -> ServerNotFoundError:
    # The driver's text has its settings after each server, and ends with all that it knows of them.
    text = re.sub(r" \(configured timeouts: [^)]*\)", "", str(error))
    reason = re.split(", Timeout: |, full error: ", text)[0]
    return ServerNotFoundError(f"MongoDB at {servers} cannot be reached: {reason}")


def _taken(error: PyMongoError) -> str:
    """Return what has the unique value of a record that was not stored."""
    details: Any = getattr(error, "details", None) or {}
    failure = [*details.get("writeErrors", ()), details][0]
    fields, text = failure.get("keyValue", {}), str(error)
    if list(fields) == ["id"] and ".messages " in text:
        return f"message {fields['id']!r} is stored in another conversation"
    if list(fields) == ["id"] and ".turn_traces " in text:
        return f"the trace {fields['id']!r} belongs to another message"
    taken = ", ".join(f"the {name} {value!r}" for name, value in fields.items()) or "this id"
    return f"another record has {taken} already"


def _codes(error: BaseException | None) -> set[int]:
    """Return the server's error codes; a bulk write has one for each failed operation."""
    if not isinstance(error, OperationFailure):
        return set()
    details = error.details or {}
    failed = [*details.get("writeErrors", ()), *details.get("writeConcernErrors", ())]
    codes = {error.code, *(failure.get("code") for failure in failed)}
    return {code for code in codes if code is not None}
