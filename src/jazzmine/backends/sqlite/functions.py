"""Functions of this library in SQL."""

from __future__ import annotations

import json
import sqlite3
from functools import lru_cache
from typing import Any
from uuid import UUID

from pydantic_core import from_json

from jazzmine.records.conversation_log import forked_id
from jazzmine.records.json_values import contains
from jazzmine.records.traces import LLMCallRecord, ToolTrace

__all__ = ["add_functions"]

# What the elements of lists have where it is not stored.
_ELEMENTS: dict[str, dict[str, Any]] = {
    field: {name: info.get_default(call_default_factory=True) for name, info in fields.items()}
    for field, fields in (
        ("tool_traces", ToolTrace.model_fields),
        ("llm_calls", LLMCallRecord.model_fields),
    )
}


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
    elements = _parsed(body).get(field)
    defaults, fields = _ELEMENTS[field], _wanted(wanted)
    return isinstance(elements, list) and any(
        isinstance(element, dict) and contains({**defaults, **element}, fields)
        for element in elements
    )


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
