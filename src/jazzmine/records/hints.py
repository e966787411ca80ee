"""Hints at the probable field or value, in the error of a refused record."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

# The names of a message's fields and roles in other libraries.
_SYNONYMS = {
    "content": "original_content",
    "text": "original_content",
    "message": "original_content",
    "thread_id": "conversation_id",
    "created_at": "timestamp",
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
        InitErrorDetails(
            type=PydanticCustomError(detail["type"], detail["msg"] + _hint(detail, kind)),
            loc=detail["loc"],
            input=detail["input"],
        )
        for detail in error.errors()
        if detail["type"] != "default_factory_not_called"
    ]
    return ValidationError.from_exception_data(error.title, details)


def _hint(detail: ErrorDetails, kind: type[BaseModel]) -> str:
    """Return the name of a field or a value that is like the wrong one, or what a time is."""
    name = str(detail["loc"][0]) if len(detail["loc"]) == 1 else ""
    wrong, allowed = name, list(kind.model_fields)
    if detail["type"] == "enum" and name:
        values: Any = kind.model_fields[name].annotation
        wrong, allowed = str(detail["input"]).lower(), [each.value for each in values]
    elif detail["type"] != "extra_forbidden":
        is_time = name in getattr(kind, "moments", ())
        return "; it is an int: ms since 1970, UTC" if is_time else ""
    synonym = _SYNONYMS.get(wrong)
    meant = [synonym] if synonym in allowed else get_close_matches(wrong, allowed, n=1)
    return f"; did you mean {meant[0]!r}?" if meant else ""
