"""Which values and namespaces the conditions of LangGraph's store let through."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from jazzmine.records.types import MAX_INT, MIN_INT

__all__ = ["matches", "namespace_matches", "simple_conditions"]

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def simple_conditions(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return those conditions of a filter that the database can check: equal simple values.

    Not None, which a filter also finds where there is no value.
    """
    return {
        key: value
        for key, value in wanted.items()
        if key.isprintable()
        and (
            (type(value) is str and value.isprintable())
            or type(value) is bool
            or (type(value) is int and MIN_INT <= value <= MAX_INT)
            or (type(value) is float and isfinite(value))
        )
    }


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a value has what a filter wants.

    Raises:
        ValueError: an operator is unknown.
    """
    return all(_matches(value.get(key), condition) for key, condition in wanted.items())


def _matches(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        if any(key.startswith("$") for key in wanted):
            return all(_compare(value, name, operand) for name, operand in wanted.items())
        return isinstance(value, dict) and matches(value, wanted)
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(wanted)
            and all(map(_matches, value, wanted))
        )
    return bool(value == wanted)


def _compare(value: Any, name: str, operand: Any) -> bool:
    if name not in _OPERATORS:
        raise ValueError(f"unknown operator {name!r}; there are {', '.join(_OPERATORS)}")
    if name in ("$eq", "$ne"):
        return _OPERATORS[name](value, operand)
    try:
        return _OPERATORS[name](float(value), float(operand))
    except (TypeError, ValueError):
        return False


def namespace_matches(namespace: Sequence[str], condition: Any) -> bool:
    """Return whether a namespace begins or ends with a path, in which "*" is any label."""
    path = condition.path
    if len(namespace) < len(path):
        return False
    labels = namespace[: len(path)]
    if condition.match_type == "suffix":
        labels = namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(labels, path, strict=True))
