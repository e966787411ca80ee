"""The errors of jazzmine.

JazzmineError
├── ConfigurationError (ValueError)
│   └── InvalidAddressError (ConnectionError)
├── StoreUnavailableError (ConnectionError)
├── IntegrityError
├── NotFoundError (KeyError)
├── RecordTooLargeError (ValueError)
├── DecryptionError (ValueError)
├── StoreClosedError (RuntimeError)
├── WrongEventLoopError (RuntimeError)
├── LockTimeoutError (TimeoutError)
├── LockLostError
├── NotAppliedError (ValueError)
├── NewerFormatError
├── ScopeError (PermissionError)
└── ConflictError
    └── StaleWorkingMemoryError

Other errors are not defined here: an invalid record raises pydantic's `ValidationError`, a
malformed JSON file `json.JSONDecodeError`, a file that cannot be read or written `OSError`.
"""

from __future__ import annotations

__all__ = [
    "ConfigurationError",
    "ConflictError",
    "DecryptionError",
    "IntegrityError",
    "InvalidAddressError",
    "JazzmineError",
    "LockLostError",
    "LockTimeoutError",
    "NewerFormatError",
    "NotAppliedError",
    "NotFoundError",
    "RecordTooLargeError",
    "ScopeError",
    "StaleWorkingMemoryError",
    "StoreClosedError",
    "StoreUnavailableError",
    "WrongEventLoopError",
]


class JazzmineError(Exception):
    """The base class of all errors of this library."""


class ConfigurationError(JazzmineError, ValueError):
    """The configuration has an unknown key or a wrong value, or the schema cannot be used."""


class InvalidAddressError(ConfigurationError, ConnectionError):
    """A DSN, URI or URL cannot be parsed; the text contains neither it nor its password."""


class StoreUnavailableError(JazzmineError, ConnectionError):
    """The server cannot be reached, was lost, or refuses a command; the call may have taken effect.

    It refuses if its disk or memory is full, for example, or if a right is missing.
    """


class IntegrityError(JazzmineError):
    """The write needs a record that is not stored, or uses the id of another record."""


class NotFoundError(JazzmineError, KeyError):
    """The record of the call is not stored."""

    # KeyError prints the repr of its argument, with quotes around the sentence.
    def __str__(self) -> str:
        return Exception.__str__(self)


class RecordTooLargeError(JazzmineError, ValueError):
    """The record is larger than its back end can store."""


class DecryptionError(JazzmineError, ValueError):
    """No key of the store opens a value, it was changed or moved, or it is not encrypted."""


class StoreClosedError(JazzmineError, RuntimeError):
    """The store was used after `close()`."""


class WrongEventLoopError(JazzmineError, RuntimeError):
    """The store was used on another event loop than the one that first used it."""


class LockTimeoutError(JazzmineError, TimeoutError):
    """The lock of a conversation or a file was not free in time."""


class LockLostError(JazzmineError):
    """The lock of a `locked` block expired, and the state has changed since: nothing was saved."""


class NotAppliedError(JazzmineError, ValueError):
    """A transition did not apply, in a strict store; nothing was changed."""


class NewerFormatError(JazzmineError):
    """A newer version of this library wrote the working memory; it is left unchanged."""


class ScopeError(JazzmineError, PermissionError):
    """A store of one user was asked for another user's records, or to store one."""


class ConflictError(JazzmineError):
    """Another call has changed the data that this call is based on: read it again and decide.

    Args:
        message: what has changed.
        newest_id: the id of the conversation's newest message, if an append was refused because
            the caller expected another one; None if the conversation has none.
    """

    def __init__(self, message: str = "", *, newest_id: str | None = None) -> None:
        super().__init__(message)
        self.newest_id: str | None = newest_id


class StaleWorkingMemoryError(ConflictError):
    """Another call has saved, deleted or created the working memory since it was read."""
