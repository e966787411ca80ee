"""Compare JSON values as JSON does, not as Python does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def contains(fields: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether an object has all these keys with equal values."""
    return all(key in fields and equal_json(fields[key], wanted[key]) for key in wanted)


def equal_json(value: Any, other: Any) -> bool:
    """Compare two JSON values: 1 equals 1.0 but, unlike in Python, True does not equal 1."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and contains(value, other)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(equal_json, value, other))
    return bool(value == other)
