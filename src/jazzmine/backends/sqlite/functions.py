"""Functions of this library in SQL."""

from __future__ import annotations

import json
import re
import sqlite3
from functools import lru_cache
from typing import Any
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import from_json

from jazzmine.records.base import Record
from jazzmine.records.conversation_log import forked_id
from jazzmine.records.json_values import contains
from jazzmine.records.traces import LLMCallRecord, ToolTrace

__all__ = ["add_functions"]

# A text that is the same in JSON, however that is written.
_PLAIN = re.compile("[A-Za-z0-9_. -]+")

_ELEMENTS: dict[str, type[Record]] = {"tool_traces": ToolTrace, "llm_calls": LLMCallRecord}


def add_functions(connection: sqlite3.Connection) -> None:
    """Let a connection's statements call the functions below."""
    for name, function, arguments in (
        ("jazzmine_contains", _contains, 2),
        ("jazzmine_has_values", _has_values, 2),
        ("jazzmine_any_contains", _any_contains, 3),
        ("jazzmine_forked_id", _forked_id, 2),
    ):
        connection.create_function(name, arguments, function, deterministic=True)


def _contains(body: str, wanted: str) -> bool:
    """Return whether the `metadata` of a record in JSON has all wanted keys and values."""
    fields = _parsed(body).get("metadata")
    return isinstance(fields, dict) and contains(fields, _wanted(wanted))


def _has_values(value: str, wanted: str) -> bool:
    """Return whether an object in JSON has all wanted keys and values."""
    return contains(_parsed(value), _wanted(wanted))


def _any_contains(body: str, field: str, wanted: str) -> bool:
    """Return whether an element of a trace's list has all wanted fields and values."""
    fields, patterns = _wanted_of_element(field, wanted)
    if not all(pattern.search(body) for pattern in patterns):
        return False
    elements = _parsed(body).get(field)
    if not isinstance(elements, list):
        return False
    return any(_has_fields(_ELEMENTS[field], element, fields) for element in elements)


@lru_cache(maxsize=16)
def _wanted_of_element(field: str, wanted: str) -> tuple[dict[str, Any], list[re.Pattern[str]]]:
    """Return the wanted values, and what a body that has them contains: it need not be parsed."""
    fields, known = _wanted(wanted), _ELEMENTS[field].model_fields
    patterns = [
        re.compile(rf'"{name}"\s*:\s*{re.escape(json.dumps(value))}')
        for name, value in fields.items()
        if value != known[name].default
        and (value is None or isinstance(value, (bool, int)) or _is_plain(value))
    ]
    return fields, patterns


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) and _PLAIN.fullmatch(value) is not None


def _has_fields(kind: type[Record], element: Any, wanted: dict[str, Any]) -> bool:
    """Return whether an element has these values; its defaults are filled in only if asked for."""
    if not isinstance(element, dict):
        return False
    stored = {name: value for name, value in wanted.items() if name in element}
    if not contains(element, stored):
        return False
    return len(stored) == len(wanted) or contains(_complete(kind, element), wanted)


def _complete(kind: type[Record], element: Any) -> dict[str, Any]:
    """Return an element with its defaults, which are not stored."""
    try:
        record: Record = kind.__pydantic_validator__.validate_python(element)
    except ValidationError:
        return element if isinstance(element, dict) else {}
    return record.model_dump(mode="json")


def _forked_id(salt: str, source_id: str) -> str:
    return forked_id(_salt(salt), source_id)


def _parsed(body: str) -> dict[str, Any]:
    try:
        fields = from_json(body)
    except ValueError:  # of another program
        return {}
    return fields if isinstance(fields, dict) else {}


@lru_cache(maxsize=16)
def _wanted(wanted: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(wanted)
    return fields


@lru_cache(maxsize=16)
def _salt(salt: str) -> UUID:
    return UUID(salt)
