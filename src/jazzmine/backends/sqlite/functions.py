"""Functions of this library in SQL."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from pydantic_core import from_json

from jazzmine.records.conversation_log import forked_id
from jazzmine.records.json_values import contains
from jazzmine.records.traces import LLMCallRecord, ToolTrace

# A text that is the same in JSON, however that is written.
_PLAIN = re.compile("[A-Za-z0-9_. -]+")

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
        ("jazzmine_contains", _contains, 3),
        ("jazzmine_any_contains", _any_contains, 3),
        ("jazzmine_forked_id", _forked_id, 2),
    ):
        connection.create_function(name, arguments, function, deterministic=True)


def _contains(text: str, field: str, wanted: str) -> bool:
    """Return whether an object in JSON, or one in a field of it, has all wanted keys and values."""
    fields, texts = _wanted(wanted)
    whole = _parsed(text, texts)
    found = whole.get(field) if field else whole
    return isinstance(found, dict) and contains(found, fields)


def _any_contains(body: str, field: str, wanted: str) -> bool:
    """Return whether an element of a trace's list has all wanted fields and values."""
    fields, texts = _wanted(wanted, field)
    elements, defaults = _parsed(body, texts).get(field), _ELEMENTS[field]
    return isinstance(elements, list) and any(
        isinstance(element, dict) and contains({**defaults, **element}, fields)
        for element in elements
    )


def _forked_id(salt: str, source_id: str) -> str:
    return forked_id(_salt(salt), source_id)


def _parsed(body: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return an object in JSON; it is empty if the body lacks a text, and need not be parsed."""
    try:
        fields = from_json(body) if all(text in body for text in texts) else None
    except ValueError:  # of another program
        fields = None
    return fields if isinstance(fields, dict) else {}


@lru_cache(maxsize=16)
def _wanted(wanted: str, element: str = "") -> tuple[dict[str, Any], list[str]]:
    """Return the wanted values, and texts that a body with them contains."""
    fields: dict[str, Any] = json.loads(wanted)
    defaults = _ELEMENTS.get(element, {})
    texts = [
        f'"{value}"'
        for name, value in fields.items()
        if isinstance(value, str) and _PLAIN.fullmatch(value) and value != defaults.get(name)
    ]
    return fields, texts


@lru_cache(maxsize=16)
def _salt(salt: str) -> UUID:
    return UUID(salt)
