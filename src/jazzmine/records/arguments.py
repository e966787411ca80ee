"""Check the arguments of methods, so that a dict or a pattern is never used as an id."""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_core import InitErrorDetails

from jazzmine.records.usage import USAGE_KEYS, UsageKey

__all__ = ["require_count", "require_id", "require_time", "require_usage_key"]

_MIN_INT, _MAX_INT = -(2**63), 2**63 - 1


def require_id(name: str, value: object) -> str:
    """Check an id, and return it as a `str`, even if it is of a subclass.

    Raises:
        TypeError: it is not a string.
        ValidationError: it is empty, or UTF-8 cannot encode it.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if not value:
        raise _refused(name, value, "string_too_short", {"min_length": 1})
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _refused(name, value, "string_unicode", {}) from None
    return value if type(value) is str else str.__str__(value)


def _refused(name: str, value: str, kind: str, context: dict[str, int]) -> ValidationError:
    detail = InitErrorDetails(type=kind, loc=(name,), input=value, ctx=context)
    return ValidationError.from_exception_data("arguments", [detail])


def require_count(name: str, value: object, least: int = 0) -> int:
    """Check a number, and return it, or the largest 64-bit integer if that is smaller.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is less than `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be {least} or more, not {value}")
    return min(value, _MAX_INT)


def require_time(name: str, value: object) -> int:
    """Check a time in ms, and return it, or the nearest 64-bit integer.

    Raises:
        TypeError: it is not an integer.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int (ms), not {type(value).__name__}")
    return max(_MIN_INT, min(value, _MAX_INT))


def require_usage_key(value: object) -> UsageKey:
    """Check that usage can be grouped by a value, and return the value.

    Raises:
        ValueError: usage cannot be grouped by it.
    """
    for key in USAGE_KEYS:
        if value == key:
            return key
    raise ValueError(f"by must be one of {', '.join(USAGE_KEYS)}, not {value!r}")
