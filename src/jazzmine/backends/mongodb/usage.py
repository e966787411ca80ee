"""Build the aggregation pipeline that sums up traces, and read its result.

https://www.mongodb.com/docs/manual/reference/operator/aggregation/percentile/
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any

from jazzmine.backends.mongodb.documents import Document
from jazzmine.records.usage import UsageKey, UsageSummary

_MS_A_DAY = 86_400_000
_EPOCH = date(1970, 1, 1)
_FIRST_DAY = (date.min - _EPOCH).days
_LAST_DAY = (date.max - _EPOCH).days

_DAY = {"$floor": {"$divide": ["$started_at_ms", _MS_A_DAY]}}
_KEYS: dict[str, Any] = {
    "agent": "$agent_id",
    "user": "$user_id",
    "conversation": "$conversation_id",
    "intent": "$detected_intent",
    "day": {"$max": [_FIRST_DAY, {"$min": [_LAST_DAY, _DAY]}]},
    "model": "$call.model",
}
_FAILED = {"$cond": [{"$gt": [{"$size": "$errors"}, 0]}, 1, 0]}

# A trace of another shape, which cannot be read, would make the server refuse the pipeline.
_READABLE = {"errors": {"$type": "array"}, "llm_calls": {"$type": "array"}}

# What is summed up of a call, whose fields have this prefix.
_PARTS = ("cached_prompt_tokens", "cache_write_tokens", "reasoning_tokens", "cost_usd")


def _of_call(call: str) -> Document:
    return {
        **{name: f"{call}.{name}" for name in _PARTS},
        "unreported_calls": {"$cond": [{"$gt": [f"{call}.prompt_tokens", 0]}, 0, 1]},
        "unpriced_calls": {"$cond": [{"$gt": [f"{call}.cost_usd", None]}, 0, 1]},
    }


# The values of a turn.
_TURN: Document = {
    "turns": 1,
    "failed_turns": _FAILED,
    "prompt_tokens": "$total_prompt_tokens",
    "completion_tokens": "$total_completion_tokens",
    "total_tokens": "$total_tokens",
    **{
        name: {"$sum": {"$map": {"input": "$llm_calls", "as": "call", "in": value}}}
        for name, value in _of_call("$$call").items()
    },
    "total_energy_kwh": "$total_energy_kwh",
    "total_co2_g": "$total_co2_g",
}

# The values of a call of a model; the first one of a turn counts the turn.
_MODELS = {"$map": {"input": "$llm_calls", "as": "call", "in": "$$call.model"}}
_IS_FIRST = {"$eq": ["$at", {"$indexOfArray": ["$models", "$call.model"]}]}
_CALL: Document = {
    "turns": {"$cond": [_IS_FIRST, 1, 0]},
    "failed_turns": {"$cond": [_IS_FIRST, "$failed", 0]},
    "prompt_tokens": "$call.prompt_tokens",
    "completion_tokens": "$call.completion_tokens",
    "total_tokens": "$call.total_tokens",
    **_of_call("$call"),
    "total_energy_kwh": 0.0,
    "total_co2_g": 0.0,
}
_CALLS: list[Document] = [
    {"$project": {"_id": 0, "failed": _FAILED, "models": _MODELS, "call": "$llm_calls"}},
    {"$unwind": {"path": "$call", "includeArrayIndex": "at"}},
]


def usage_pipeline(query: Document, by: UsageKey) -> list[Document]:
    """Build the pipeline that sums up the traces that match a query."""
    stages, values, latency = list[Document](), _TURN, "$total_latency_ms"
    if by == "model":
        stages, values, latency = _CALLS, _CALL, "$call.latency_ms"
    ranks = {"input": latency, "p": [0.5, 0.95], "method": "approximate"}
    group = {
        "_id": _KEYS[by],
        **{name: {"$sum": value} for name, value in values.items()},
        "mean_latency_ms": {"$avg": latency},
        "max_latency_ms": {"$max": latency},
        "percentiles": {"$percentile": ranks},
    }
    return [{"$match": {**query, **_READABLE}}, *stages, {"$group": group}]


def read_summaries(groups: Iterable[Document], by: UsageKey) -> list[UsageSummary]:
    """Return the summaries of a pipeline's result, by descending tokens, then by key."""
    summaries = [_summary(group, by) for group in groups]
    return sorted(summaries, key=lambda summary: (-summary.total_tokens, summary.key))


def _summary(group: Document, by: UsageKey) -> UsageSummary:
    key, (p50, p95) = group.pop("_id"), group.pop("percentiles")
    if by == "day":
        key = (_EPOCH + timedelta(days=int(key))).isoformat()
    return UsageSummary(key=key, p50_latency_ms=round(p50), p95_latency_ms=round(p95), **group)
