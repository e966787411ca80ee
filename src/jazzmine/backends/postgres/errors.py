"""Classify psycopg's errors, and translate them into the errors of jazzmine."""

from __future__ import annotations

import re

from psycopg import errors

from jazzmine.backends.postgres.text import from_text
from jazzmine.errors import (
    ConfigurationError,
    IntegrityError,
    JazzmineError,
    RecordTooLargeError,
    StoreUnavailableError,
)

# The server ends the session, or has become read-only.
_DISCONNECTS = (
    errors.AdminShutdown,
    errors.CannotConnectNow,
    errors.CrashShutdown,
    errors.DatabaseDropped,
    errors.IdleSessionTimeout,
    errors.InterfaceError,
    errors.ReadOnlySqlTransaction,
)
_CONNECTION_EXCEPTIONS = "08"  # the class of SQLSTATE codes
_TRANSIENT = (
    errors.DeadlockDetected,
    errors.LockNotAvailable,
    errors.SerializationFailure,
    errors.TooManyConnections,
)
# A right is missing, or a table, column, function or schema was dropped, renamed or changed since
# the store was opened.
_WRONG_SCHEMA = ("42", "3F")  # the classes of SQLSTATE codes
# Behind a pooler, another client has prepared statements on the same connection of the server.
_LOST_STATEMENTS = (errors.DuplicatePreparedStatement, errors.InvalidSqlStatementName)
# Other constraints are the application's.
_PARENTS = {
    "messages_conversation_id_fkey": "conversation",
    "turn_traces_message_id_fkey": "message",
}
# The role does not see what has the id; a function of the schema names no constraint.
_IDS = (None, "conversations_pkey", "messages_pkey", "turn_traces_pkey")
_KEY = re.compile(r"\)=\((.*)\)", re.DOTALL)


class TimedOut(errors.OperationalError):
    """The server did not reply before a deadline; the reply may still arrive."""


def is_disconnect(error: BaseException) -> bool:
    """Return whether the connection cannot be used after an error, even if it is not closed."""
    return isinstance(error, errors.Error) and (
        isinstance(error, _DISCONNECTS) or (error.sqlstate or "").startswith(_CONNECTION_EXCEPTIONS)
    )


def is_transient(error: Exception, *, is_repeated: bool = False) -> bool:
    """Return whether the same call may succeed later on the same connection.

    Once, where a unique index had the value, perhaps from a concurrent call.
    """
    is_conflict = isinstance(error, errors.UniqueViolation) and not is_repeated
    return isinstance(error, _TRANSIENT) or is_conflict


def translated(error: Exception, server: str) -> JazzmineError:
    """Return our error for an error of the driver after which the call is not tried again."""
    if isinstance(error, errors.IntegrityError):
        name = error.diag.constraint_name
        if parent := _PARENTS.get(name or ""):
            return IntegrityError(
                f"the {parent}{_key_of(error)} is not stored; store the {parent} first"
            )
        if isinstance(error, errors.UniqueViolation) and name in _IDS:
            is_trace = name == "turn_traces_pkey"
            text = "the trace{} belongs to another message" if is_trace else "the id{} is taken"
            return IntegrityError(f"{text.format(_key_of(error))}; nothing was written")
    # A function of the schema, or a constraint, a trigger or a policy of the application.
    if isinstance(error, (errors.IntegrityError, errors.RaiseException)) or (
        isinstance(error, errors.InsufficientPrivilege) and "row-level security" in str(error)
    ):
        return IntegrityError(f"{from_text(_text_of(error))}; nothing was written")
    if isinstance(error, errors.ProgramLimitExceeded):
        return RecordTooLargeError(f"PostgreSQL can't hold this: {_text_of(error)}")
    if isinstance(error, _LOST_STATEMENTS):
        return ConfigurationError(
            f"PostgreSQL at {server}: {_text_of(error)}; a connection pooler that"
            " does not know prepared statements shares its connections: set 'prepare' to False"
            " (in a URL: ?prepare=false; in the kwargs of a pool of your own:"
            " prepare_threshold=None), or use PgBouncer 1.22 or newer with"
            " max_prepared_statements above 0"
        )
    if isinstance(error, errors.Error) and (error.sqlstate or "").startswith(_WRONG_SCHEMA):
        return ConfigurationError(
            f"PostgreSQL at {server}: {_text_of(error)};"
            " `jazzmine doctor` says the statement that mends it"
        )
    return unavailable(error, server)


def unavailable(error: Exception, server: str) -> StoreUnavailableError:
    """Return the error for a server that cannot be used."""
    return StoreUnavailableError(f"PostgreSQL at {server}: {_text_of(error)}")


def deadline_exceeded(error: Exception, server: str, timeout: float) -> StoreUnavailableError:
    """Return the error for a call that had no reply before its deadline."""
    return StoreUnavailableError(
        f"PostgreSQL at {server} gave no answer within {timeout:g} s: {_text_of(error)}"
    )


def _key_of(error: errors.IntegrityError) -> str:
    found = _KEY.search(error.diag.message_detail or "")
    return f" {from_text(found[1])!r}" if found else ""


def without_row(error: Exception) -> Exception:
    """Return an error of the server whose text is its message alone: the rest may print a row."""
    if primary := _primary(error):
        error.args = (primary,)
    return error


def _primary(error: Exception) -> str | None:
    return error.diag.message_primary if isinstance(error, errors.Error) else None


def _text_of(error: Exception) -> str:
    lines = [" ".join(line.split()) for line in str(error).splitlines()]
    return _primary(error) or "; ".join(filter(None, lines)) or type(error).__name__
