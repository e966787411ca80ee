"""Every error that jazzmine raises of its own.

JazzmineError
├── ConfigurationError (ValueError)
│   └── InvalidAddressError (ConnectionError)
├── StoreUnavailableError (ConnectionError)
├── IntegrityError
├── NotFoundError (KeyError)
├── RecordTooLargeError (ValueError)
├── StoreClosedError (RuntimeError)
├── WrongEventLoopError (RuntimeError)
├── LockTimeoutError (TimeoutError)
├── LockLostError
├── NewerFormatError
└── ConflictError
    └── StaleWorkingMemoryError

A record that breaks a rule of its own raises pydantic's `ValidationError`, a malformed
JSON file `json.JSONDecodeError`, a file that cannot be read or written `OSError`.
"""

from __future__ import annotations

__all__ = [
    "ConfigurationError",
    "ConflictError",
    "IntegrityError",
    "InvalidAddressError",
    "JazzmineError",
    "LockLostError",
    "LockTimeoutError",
    "NewerFormatError",
    "NotFoundError",
    "RecordTooLargeError",
    "StaleWorkingMemoryError",
    "StoreClosedError",
    "StoreUnavailableError",
    "WrongEventLoopError",
]


class JazzmineError(Exception):
    """The root of all errors of this library."""


class ConfigurationError(JazzmineError, ValueError):
    """The configuration names an unknown storage or key, or a value of a wrong type."""


class InvalidAddressError(ConfigurationError, ConnectionError):
    """A DSN, URI or URL cannot be parsed; the text repeats neither it nor its password."""


class StoreUnavailableError(JazzmineError, ConnectionError):
    """The server cannot be reached or went away; what became of the call is unknown."""


class IntegrityError(JazzmineError):
    """The write refers to a record that is not stored, or to one that belongs elsewhere."""


class NotFoundError(JazzmineError, KeyError):
    """The record that the call starts from is not stored."""

    # KeyError prints the repr of its argument, which is no sentence to read.
    def __str__(self) -> str:
        return Exception.__str__(self)


class RecordTooLargeError(JazzmineError, ValueError):
    """The record is larger than its back end can hold."""


class StoreClosedError(JazzmineError, RuntimeError):
    """The store was used after `close()`."""


class WrongEventLoopError(JazzmineError, RuntimeError):
    """The store was used from another event loop than the one that it belongs to."""


class LockTimeoutError(JazzmineError, TimeoutError):
    """A lock was not free within `lock_timeout`."""


class LockLostError(JazzmineError):
    """The lock expired while it was held, so the late write was refused."""


class NewerFormatError(JazzmineError):
    """A newer version of this library wrote the working memory; it is left as it is."""


class ConflictError(JazzmineError):
    """What the call builds on was changed by another one: read again and decide."""


class StaleWorkingMemoryError(ConflictError):
    """The working memory was saved, deleted or made anew by another call since it was read."""
