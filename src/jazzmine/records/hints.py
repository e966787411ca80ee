"""Hints at the probable field or value, in the error of a refused record."""

from __future__ import annotations

from difflib import get_close_matches
from enum import Enum
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

__all__ = ["with_hints"]

# The names of a message's fields and roles in other libraries.
_FIELDS = {"content": "original_content", "text": "original_content", "created_at": "timestamp"}
_ROLES = {
    "human": "user",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "developer": "system",
    "function": "tool",
}


def with_hints(error: ValidationError, kind: type[BaseModel]) -> ValidationError:
    """Return the error with hints, and without errors that only follow from others.

    A default that depends on other fields is not made if one of these was refused.
    """
    details = [
        detail for detail in error.errors() if detail["type"] != "default_factory_not_called"
    ]
    return ValidationError.from_exception_data(
        error.title, [_with_hint(detail, kind) for detail in details]
    )


def _with_hint(detail: ErrorDetails, kind: type[BaseModel]) -> InitErrorDetails:
    meant = _meant(detail, kind)
    text = f"{detail['msg']}; did you mean {meant!r}?" if meant else detail["msg"]
    if detail["loc"] and detail["loc"][0] in getattr(kind, "moments", ()):
        text += "; it is an int: ms since 1970, UTC"
    return InitErrorDetails(
        type=PydanticCustomError(detail["type"], text),
        loc=detail["loc"],
        input=detail["input"],
    )


def _meant(detail: ErrorDetails, kind: type[BaseModel]) -> str | None:
    """Return the name of a field or a value that is like the wrong one, or None."""
    if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
        return _nearest(str(detail["loc"][0]), list(kind.model_fields), _FIELDS)
    field = kind.model_fields.get(str(detail["loc"][0])) if len(detail["loc"]) == 1 else None
    if detail["type"] == "enum" and field is not None and isinstance(detail["input"], str):
        values: Any = field.annotation
        if isinstance(values, type) and issubclass(values, Enum):
            return _nearest(detail["input"].lower(), [str(v.value) for v in values], _ROLES)
    return None


def _nearest(wrong: str, allowed: list[str], synonyms: dict[str, str]) -> str | None:
    if synonyms.get(wrong) in allowed:
        return synonyms[wrong]
    nearest = get_close_matches(wrong, allowed, n=1, cutoff=0.6)
    return nearest[0] if nearest else None
