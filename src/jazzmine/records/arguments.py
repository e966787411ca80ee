"""Check the arguments of methods, so that a dict or a pattern is never used as an id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from jazzmine.records.base import warn_of_unit
from jazzmine.records.log import ANY, AnyMessage
from jazzmine.records.messages import MessageRole
from jazzmine.records.types import MAX_INT, MAX_PARTS, MIN_INT, plain_json


def require_id(name: str, value: object) -> str:
    """Check an id, and return it as a plain `str`."""
    text = require_text(name, value)
    if not text:
        raise _refused(name, text, "string_too_short", min_length=1)
    return text


def optional_id(name: str, value: object) -> str | None:
    """Check an id, and return it; None stays None."""
    return None if value is None else require_id(name, value)


def require_ids(name: str, values: Iterable[object]) -> list[str]:
    """Check several ids, and return them; one string is a `TypeError`."""
    if isinstance(values, str):
        raise TypeError(f"{name} must be several ids, not one str")
    return [require_id(name, value) for value in values]


def require_text(name: str, value: object) -> str:
    """Check a text that UTF-8 can encode, and return it as a plain `str`."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _refused(name, value, "string_unicode") from None
    return value if type(value) is str else str.__str__(value)


def require_texts(name: str, value: object) -> list[str]:
    """Check several texts, and return them as plain `str`."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list of str, not {type(value).__name__}")
    return [require_text(name, text) for text in value]


def _refused(
    name: str, value: object, kind: str | PydanticCustomError, **context: int
) -> ValidationError:
    detail = InitErrorDetails(type=kind, loc=(name,), input=value, ctx=context)
    return ValidationError.from_exception_data("arguments", [detail])


def require_metadata(name: str, value: object) -> dict[str, Any]:
    """Check keys and values of a record's `metadata`, and return a copy; {} for None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, not {type(value).__name__}")
    try:
        copied: dict[str, Any] = plain_json(dict(value))
    except PydanticCustomError as error:
        raise _refused(name, value, error) from None
    return copied


def require_namespace(name: str, value: object, least: int = 1) -> tuple[str, ...]:
    """Check a namespace of at least so many parts, and return it as a tuple."""
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{name} must be a tuple of str, not {type(value).__name__}")
    parts = tuple(require_id(name, part) for part in value)
    if not least <= len(parts) <= MAX_PARTS:
        error = PydanticCustomError(
            "namespace",
            "a namespace has {least} to {most} parts",
            {"least": least, "most": MAX_PARTS},
        )
        raise _refused(name, value, error)
    return parts


def require_choice(name: str, value: object, kind: Any) -> Any:
    """Check a value that is one of the texts of a `Literal`, and return it."""
    choices = get_args(kind)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return value


def require_revision(value: object) -> int | AnyMessage | None:
    """Check an expected revision, and return it."""
    if value is None or value is ANY:
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected_revision must be an int, None or ANY, not {value!r}")
    return max(MIN_INT, min(value, MAX_INT))


def require_count(name: str, value: object, least: int = 0) -> int:
    """Check a number, and return it, or the largest 64-bit integer if that is smaller."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be {least} or more, not {value}")
    return min(value, MAX_INT)


def require_time(name: str, value: object) -> int:
    """Check a time in ms, and return it, or the nearest 64-bit integer.

    A time before 1990 or after 2500 is logged: it probably has another unit.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int (ms since 1970, UTC), not {type(value).__name__}")
    warn_of_unit(f"the argument {name}", value)
    return max(MIN_INT, min(value, MAX_INT))


def require_roles(value: Iterable[MessageRole | str] | None) -> tuple[str, ...]:
    """Check roles, and return their values, each once; () for None."""
    if isinstance(value, str | MessageRole):
        raise TypeError("roles must be a list of roles, such as ['user'], not one role")
    return tuple({MessageRole(role).value: None for role in value or ()})
