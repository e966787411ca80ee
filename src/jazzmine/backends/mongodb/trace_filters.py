"""Build the queries for a `TraceFilter` and for a conversation's metadata.

They match as `json_values.contains` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jazzmine.backends.mongodb.documents import Document, escaped
from jazzmine.backends.mongodb.queries import equal
from jazzmine.records.usage import TraceFilter

__all__ = ["filter_query", "metadata_query"]

_EQUAL = (
    ("agent_id", "agent_id"),
    ("user_id", "user_id"),
    ("conversation_id", "conversation_id"),
    ("intent", "detected_intent"),
)
_BOUNDS = (
    ("started_from", "started_at_ms", "$gte"),
    ("started_until", "started_at_ms", "$lt"),
    ("min_total_tokens", "total_tokens", "$gte"),
    ("min_latency_ms", "total_latency_ms", "$gte"),
)
_ELEMENTS = (("tool", "tool_traces"), ("llm_call", "llm_calls"))


def filter_query(where: TraceFilter) -> Document:
    """Build the query for the traces that match a filter."""
    query: Document = {}
    for name, field in _EQUAL:
        value = getattr(where, name)
        if value is not None:
            query.update(equal(**{field: value}))
    for name, field, operator in _BOUNDS:
        value = getattr(where, name)
        if value is not None:
            query.setdefault(field, {})[operator] = value
    if where.has_errors is not None:
        query["errors.0"] = {"$exists": where.has_errors}
    exact = []
    for name, section in _ELEMENTS:
        wanted = getattr(where, name)
        if wanted is not None:
            query.update(_some_element(section, wanted))
            exact.append(_some_element_exactly(section, wanted))
    if exact:
        query["$expr"] = {"$and": exact}
    return query


def _some_element(section: str, wanted: dict[str, Any]) -> Document:
    """Build a quick condition, which also holds where `{"$eq": 1}` matches `[1, 2]`."""
    simple = {
        field: {"$eq": value}
        for field, value in wanted.items()
        if not isinstance(value, (dict, list))
    }
    if not simple:
        return {f"{section}.0": {"$exists": True}}
    return {section: {"$elemMatch": simple}}


def _some_element_exactly(section: str, wanted: dict[str, Any]) -> Document:
    each = [
        _equals(f"$$element.{field}", escaped(value), depth=0) for field, value in wanted.items()
    ]
    holds = {"$map": {"input": f"${section}", "as": "element", "in": {"$and": each}}}
    return {"$anyElementTrue": [holds]}


def metadata_query(wanted: Mapping[str, Any], field: str = "metadata") -> Document:
    """Build the query for the documents with these keys and values in a field."""
    query: Document = {}
    exact = []
    for key, value in escaped(dict(wanted)).items():
        if "." not in key and key and not isinstance(value, (dict, list)):
            query[f"{field}.{key}"] = {"$eq": value}  # for the index
        stored = {"$getField": {"field": {"$literal": key}, "input": f"${field}"}}
        is_null = {"$eq": [{"$type": stored}, "null"]}
        member = {"$ifNull": [stored, None]}  # a missing key is no object
        exact.append(is_null if value is None else _equals(member, value, depth=0))
    if exact:
        query["$expr"] = {"$and": exact}
    return query


def _equals(value: Any, wanted: Any, depth: int) -> Document:
    """Build a comparison of JSON values; `$eq` depends on the order of an object's names."""
    if isinstance(wanted, list):
        return _equals_array(value, wanted, depth)
    if isinstance(wanted, dict):
        return _equals_object(value, wanted, depth)
    if wanted is None:
        return {"$eq": [{"$ifNull": [value, None]}, None]}
    return {"$eq": [value, {"$literal": wanted}]}


def _equals_array(value: Any, wanted: list[Any], depth: int) -> Document:
    items = [
        _equals({"$arrayElemAt": [_variable(depth), index]}, item, depth + 1)
        for index, item in enumerate(wanted)
    ]
    return _when(
        {"$isArray": [_variable(depth)]},
        [{"$eq": [{"$size": _variable(depth)}, len(wanted)]}, *items],
        value,
        depth,
    )


def _equals_object(value: Any, wanted: dict[str, Any], depth: int) -> Document:
    members = [_equals(_member(name, depth), item, depth + 1) for name, item in wanted.items()]
    names = {
        "$map": {"input": {"$objectToArray": _variable(depth)}, "as": "member", "in": "$$member.k"}
    }
    return _when(
        {"$eq": [{"$type": _variable(depth)}, "object"]},
        [{"$setEquals": [names, {"$literal": list(wanted)}]}, *members],
        value,
        depth,
    )


def _member(name: str, depth: int) -> Document:
    # https://www.mongodb.com/docs/manual/reference/operator/aggregation/getField/
    return {"$getField": {"field": {"$literal": name}, "input": _variable(depth)}}


def _variable(depth: int) -> str:
    return f"$$value{depth}"


def _when(kind: Document, conditions: list[Document], value: Any, depth: int) -> Document:
    """Build conditions for values of one kind; they would fail on other values."""
    compared = {"$cond": [kind, {"$and": conditions}, False]}
    return {"$let": {"vars": {_variable(depth)[2:]: value}, "in": compared}}
