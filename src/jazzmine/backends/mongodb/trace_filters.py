"""Build the queries for a `TraceFilter` and for a conversation's metadata.

They match as `json_values.contains` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jazzmine.backends.mongodb.documents import Document, escaped
from jazzmine.records.usage import TraceFilter

# The condition of each field of a filter, by its name: a field of a trace, and an operator.
_CONDITIONS = {
    "agent_id": ("agent_id", "$eq"),
    "user_id": ("user_id", "$eq"),
    "conversation_id": ("conversation_id", "$eq"),
    "intent": ("detected_intent", "$eq"),
    "started_from": ("started_at_ms", "$gte"),
    "started_until": ("started_at_ms", "$lt"),
    "min_total_tokens": ("total_tokens", "$gte"),
    "min_latency_ms": ("total_latency_ms", "$gte"),
}


def filter_query(where: TraceFilter) -> Document:
    """Build the query for the traces that match a filter."""
    query: Document = {}
    for name, (field, operator) in _CONDITIONS.items():
        value = getattr(where, name)
        if value is not None:
            query.setdefault(field, {})[operator] = value
    if where.has_errors is not None:
        query["errors.0"] = {"$exists": where.has_errors}
    elements = (("$tool_traces", where.tool), ("$llm_calls", where.llm_call))
    exact = [_some_element(name, wanted) for name, wanted in elements if wanted is not None]
    if exact:
        query["$expr"] = {"$and": exact}
    return query


def _some_element(section: str, wanted: dict[str, Any]) -> Document:
    each = [_equals(f"$$element.{field}", escaped(value)) for field, value in wanted.items()]
    elements = {"$cond": [{"$isArray": [section]}, section, []]}  # of a trace that cannot be read
    holds = {"$map": {"input": elements, "as": "element", "in": {"$and": each}}}
    return {"$anyElementTrue": [holds]}


def metadata_query(wanted: Mapping[str, Any], field: str = "metadata") -> Document:
    """Build the query for the documents with these keys and values in a field."""
    query: Document = {}
    exact = []
    for key, value in escaped(dict(wanted)).items():
        if "." not in key and key and not isinstance(value, (dict, list)):
            query[f"{field}.{key}"] = {"$eq": value}  # for the index
        stored = _member(f"${field}", key)
        is_null = {"$eq": [{"$type": stored}, "null"]}
        member = {"$ifNull": [stored, None]}  # a missing key is no object
        exact.append(is_null if value is None else _equals(member, value))
    if exact:
        query["$expr"] = {"$and": exact}
    return query


def _equals(value: Any, wanted: Any, depth: int = 0) -> Document:
    """Build a comparison of JSON values; `$eq` depends on the order of an object's names."""
    own = f"$$value{depth}"
    if isinstance(wanted, list):
        is_same_type: Document = {"$isArray": [own]}
        has_same_keys: Document = {"$eq": [{"$size": own}, len(wanted)]}
        parts = [({"$arrayElemAt": [own, at]}, item) for at, item in enumerate(wanted)]
    elif isinstance(wanted, dict):
        names = {"$map": {"input": {"$objectToArray": own}, "as": "member", "in": "$$member.k"}}
        is_same_type = {"$eq": [{"$type": own}, "object"]}
        has_same_keys = {"$setEquals": [names, {"$literal": list(wanted)}]}
        parts = [(_member(own, name), item) for name, item in wanted.items()]
    elif wanted is None:
        return {"$eq": [{"$ifNull": [value, None]}, None]}
    else:
        return {"$eq": [value, {"$literal": wanted}]}
    are_equal = [_equals(part, item, depth + 1) for part, item in parts]
    # The other conditions would fail on a value of another type.
    compared = {"$cond": [is_same_type, {"$and": [has_same_keys, *are_equal]}, False]}
    return {"$let": {"vars": {own[2:]: value}, "in": compared}}


def _member(value: str, name: str) -> Document:
    # https://www.mongodb.com/docs/manual/reference/operator/aggregation/getField/
    return {"$getField": {"field": {"$literal": name}, "input": value}}
