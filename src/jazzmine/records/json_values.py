"""Compare JSON values as JSON does, not as Python does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["contains", "equal_json"]


def contains(fields: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether an object has all these keys with equal values."""
    return all(key in fields and equal_json(fields[key], wanted[key]) for key in wanted)


def equal_json(one: Any, other: Any) -> bool:
    """Compare two JSON values: 1 equals 1.0 but, unlike in Python, True does not equal 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and contains(one, other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal_json, one, other))
    return bool(one == other)
