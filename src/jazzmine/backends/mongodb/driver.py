"""Options and errors of PyMongo, for both APIs."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from typing import Any

from bson.codec_options import DatetimeConversion
from pymongo import ReadPreference, WriteConcern
from pymongo.common import VALIDATORS
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    DocumentTooLarge,
    DuplicateKeyError,
    InvalidOperation,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
)
from pymongo.read_concern import ReadConcern
from pymongo.uri_parser import parse_uri

from jazzmine.backends.addresses import wrong_option
from jazzmine.deadline import Deadline, milliseconds
from jazzmine.errors import (
    IntegrityError,
    InvalidAddressError,
    JazzmineError,
    RecordTooLargeError,
    StoreClosedError,
    StoreUnavailableError,
)

__all__ = [
    "DURABLE",
    "LENIENT",
    "MAJORITY",
    "PRIMARY",
    "SNAPSHOT",
    "Attempts",
    "ServerNotFoundError",
    "client_options",
    "invalid_address",
    "is_conflict",
    "is_duplicate",
    "is_known_after",
    "server_names",
    "translated",
    "was_interrupted",
]

# A write returns after a majority has stored it, and reads return only such data: so a caller
# reads its own writes, and no data that a failover rolls back.
# https://www.mongodb.com/docs/manual/core/read-isolation-consistency-recency/
DURABLE = WriteConcern("majority", j=True)
MAJORITY = ReadConcern("majority")
SNAPSHOT = ReadConcern("snapshot")
PRIMARY = ReadPreference.PRIMARY

# One document must not make all documents of a reply unreadable. Other programs may have stored
# text that is not UTF-8, and dates beyond the years of Python.
# https://pymongo.readthedocs.io/en/stable/api/bson/codec_options.html
LENIENT: dict[str, Any] = {
    "unicode_decode_error_handler": "replace",
    "datetime_conversion": DatetimeConversion.DATETIME_AUTO,
}

# https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml
_AUTHENTICATION_FAILED = 18
_DUPLICATE_KEY = 11000
_WRITE_CONFLICT = 112
_TIMED_OUT = frozenset({50, 64, 89, 262})
_GOING_AWAY = frozenset({6, 7, 91, 189, 9001, 10107, 11600, 11602, 13435, 13436})
_TOO_LARGE = frozenset({10334, 17419, 17420})
_REPEATABLE = ("RetryableWriteError", "TransientTransactionError")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_FIRST_CONFLICT_PAUSE = 0.005
_MIN_REMAINING = 0.05
_MOST_COLLISIONS = 3


class ServerNotFoundError(StoreUnavailableError, ServerSelectionTimeoutError):
    """No server for the call was found before the deadline."""


def server_names(uri: str, options: Iterable[str]) -> str:
    """Return the hosts and ports in a URI, for error messages.

    Args:
        options: the store's own options, one of which an unknown one may mean.

    Raises:
        InvalidAddressError: the URI cannot be parsed.
    """
    if uri.startswith("mongodb+srv://"):
        # The names of its servers come from DNS, which the client queries when it connects.
        return uri[len("mongodb+srv://") :].partition("/")[0].partition("?")[0].rpartition("@")[2]
    nodes: list[tuple[str, int | None]] = []
    wrong = ""
    try:
        nodes = parse_uri(uri, validate=True, warn=False)["nodelist"]
    except (PyMongoError, KeyError, ValueError, TypeError) as error:
        wrong = wrong_option(uri, error, VALIDATORS, options)
    if not nodes:
        # Raised outside the except block: the driver's error may contain the password.
        raise invalid_address(wrong)
    return ", ".join(host if port is None else f"{host}:{port}" for host, port in nodes)


def invalid_address(wrong: str = "") -> InvalidAddressError:
    """Return the error for a URI that cannot be parsed, without the URI, which has a password.

    Args:
        wrong: the end of the text, if it is known what is wrong.
    """
    return InvalidAddressError(f"uri cannot be parsed{wrong or _FORM}")


_FORM = (
    "; it must read mongodb://USER:PASSWORD@HOST:PORT/DB?OPTION=VALUE, with known options and"
    " whatever is special in the user and password percent-encoded"
)


def client_options(uri: str, timeout: float) -> dict[str, Any]:
    """Return the client options that the URI does not set.

    Args:
        timeout: the deadline of a call, in s.
    """
    # An attempt to connect must leave time for another one. A connection that was idle for long
    # is closed, because a firewall may have dropped it.
    options = {
        "connectTimeoutMS": min(20_000, milliseconds(timeout / 3)),
        "maxIdleTimeMS": 60_000,
    }
    given = uri.partition("?")[2].lower()
    return {name: value for name, value in options.items() if f"{name.lower()}=" not in given}


class Attempts:
    """The attempts of a call: whether and when to try again before a deadline."""

    __slots__ = ("_collisions", "_deadline", "_failures")

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._failures = 0
        self._collisions = 0

    def pause_after(self, error: PyMongoError) -> float | None:
        """Return the number of seconds until the next attempt, or None to stop."""
        if isinstance(error, DuplicateKeyError):
            # Another client has just inserted the document that this call did not find.
            self._collisions += 1
            return 0.0 if self._collisions < _MOST_COLLISIONS else None
        remaining = self._deadline.remaining()
        if remaining < _MIN_REMAINING or not _is_transient(error):
            return None
        self._failures += 1
        first = _FIRST_PAUSE if isinstance(error, ConnectionFailure) else _FIRST_CONFLICT_PAUSE
        longest = min(first * 2**self._failures, _LONGEST_PAUSE, remaining / 2)
        return random.uniform(longest / 2, longest)


def _is_transient(error: PyMongoError) -> bool:
    return (
        isinstance(error, ConnectionFailure)
        or any(map(error.has_error_label, _REPEATABLE))
        or bool(_codes(error) & _GOING_AWAY)
    )


def is_duplicate(error: BulkWriteError) -> bool:
    """Return whether a bulk write failed because a unique value is stored already."""
    return _DUPLICATE_KEY in _codes(error)


def is_conflict(error: PyMongoError) -> bool:
    """Return whether a transaction failed because another one has written the same document."""
    return _WRITE_CONFLICT in _codes(error)


def is_known_after(error: Exception) -> bool:
    """Return whether the commands before an error have no further effect.

    If the server refused a command, it has also ended the session's transaction; if the store
    raised the error, the driver's abort has reached the server.
    """
    cause = error.__cause__ or error
    return isinstance(cause, JazzmineError) or (
        isinstance(cause, PyMongoError) and not cause.timeout
    )


def was_interrupted(session: Any) -> bool:
    """Return whether a connection was lost while a session sent a command.

    The driver repeats such a command, and the server may receive it twice.
    """
    # PyMongo has no public name for this attribute, which its session pool uses.
    return bool(session._server_session.dirty)


def translated(error: PyMongoError, servers: str, *, reached: bool) -> Exception:
    """Return our error for an error of the driver, or the same error if there is none.

    Args:
        servers: the names of the servers.
        reached: whether the driver knows a server for the call after the last attempt.
    """
    codes = _codes(error)
    if isinstance(error, DocumentTooLarge) or codes & _TOO_LARGE:
        return RecordTooLargeError("the record is larger than 16 MiB as a MongoDB document")
    if isinstance(error, DuplicateKeyError):
        return IntegrityError(f"an id belongs to another record: {_taken(error)}")
    if isinstance(error, ServerSelectionTimeoutError):
        return _unreachable(error, servers)
    if _AUTHENTICATION_FAILED in codes:
        return StoreUnavailableError(f"MongoDB at {servers} refused the user name or password")
    if isinstance(error, ConfigurationError):
        # Raised when a client first connects: DNS has no servers for a mongodb+srv URI.
        return StoreUnavailableError(f"MongoDB at {servers} cannot be found")
    if isinstance(error, InvalidOperation) and "after close" in str(error):
        return StoreClosedError("this store was closed during the call")
    if _is_transient(error) or error.timeout or codes & _TIMED_OUT:
        if not reached:
            # The deadline passed between two searches for a server.
            return _unreachable(error, servers)
        return StoreUnavailableError(f"MongoDB at {servers} did not answer in time")
    if isinstance(error, WriteConcernError):
        return StoreUnavailableError(f"MongoDB at {servers} did not confirm the write: {error}")
    return error


def _unreachable(error: PyMongoError, servers: str) -> ServerNotFoundError:
    # The driver's text has its settings after each server, and ends with all that it knows of them.
    text = re.sub(r" \(configured timeouts: [^)]*\)", "", str(error))
    reason = re.split(", Timeout: |, full error: ", text)[0]
    return ServerNotFoundError(f"MongoDB at {servers} cannot be reached: {reason}")


def _taken(error: DuplicateKeyError) -> str:
    taken = (error.details or {}).get("keyValue", {})
    return ", ".join(f"{field} {value!r}" for field, value in taken.items())


def _codes(error: PyMongoError) -> set[int]:
    """Return the server's error codes; a bulk write has one for each failed operation."""
    if not isinstance(error, OperationFailure):
        return set()
    details = error.details or {}
    failed = [*details.get("writeErrors", ()), *details.get("writeConcernErrors", ())]
    codes = {error.code, *(failure.get("code") for failure in failed)}
    return {code for code in codes if code is not None}
