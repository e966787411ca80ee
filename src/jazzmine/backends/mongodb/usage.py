"""Build the aggregation pipeline that sums up traces, and read its result.

https://www.mongodb.com/docs/manual/reference/operator/aggregation/percentile/
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any

from jazzmine.backends.mongodb.documents import Document
from jazzmine.records.usage import UsageKey, UsageSummary

__all__ = ["read_summaries", "usage_pipeline"]

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
}
_FAILED = {"$cond": [{"$gt": [{"$size": {"$ifNull": ["$errors", []]}}, 0]}, 1, 0]}
_SUMS = (
    "turns",
    "failed_turns",
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "cached_prompt_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cost_usd",
    "unreported_calls",
    "unpriced_calls",
    "total_energy_kwh",
    "total_co2_g",
)


def usage_pipeline(query: Document, by: UsageKey) -> list[Document]:
    """Build the pipeline that sums up the traces that match a query."""
    rows = _calls() if by == "model" else _turns(_KEYS[by])
    ranks = {"input": "$latency_ms", "p": [0.5, 0.95], "method": "approximate"}
    group: Document = {
        "_id": "$key",
        **{name: {"$sum": f"${name}"} for name in _SUMS},
        "mean_latency_ms": {"$avg": "$latency_ms"},
        "max_latency_ms": {"$max": "$latency_ms"},
        "percentiles": {"$percentile": ranks},
    }
    return [{"$match": query}, *rows, {"$group": group}]


def _turns(key: Any) -> list[Document]:
    """Build the stage that makes one row for each turn."""
    row = {
        "_id": 0,
        "key": key,
        "turns": {"$literal": 1},
        "failed_turns": _FAILED,
        "prompt_tokens": "$total_prompt_tokens",
        "completion_tokens": "$total_completion_tokens",
        "total_tokens": 1,
        "cached_prompt_tokens": _sum_of_calls("$$call.cached_prompt_tokens"),
        "cache_write_tokens": _sum_of_calls("$$call.cache_write_tokens"),
        "reasoning_tokens": _sum_of_calls("$$call.reasoning_tokens"),
        "cost_usd": _sum_of_calls("$$call.cost_usd"),
        "unreported_calls": _sum_of_calls(_not_above("$$call.prompt_tokens", 0)),
        "unpriced_calls": _sum_of_calls(_not_above("$$call.cost_usd", None)),
        "latency_ms": "$total_latency_ms",
        "total_energy_kwh": "$total_energy_kwh",
        "total_co2_g": "$total_co2_g",
    }
    return [{"$project": row}]


def _sum_of_calls(number: Any) -> Document:
    return {"$sum": {"$map": {"input": "$llm_calls", "as": "call", "in": number}}}


def _not_above(number: str, least: int | None) -> Document:
    """Build an expression that is 1 if a number is missing or not above another one."""
    return {"$cond": [{"$gt": [number, least]}, 0, 1]}


def _calls() -> list[Document]:
    """Build the stages that make one row for each call of a model; the first counts the turn."""
    models = {"$map": {"input": "$llm_calls", "as": "call", "in": "$$call.model"}}
    first = {"$eq": ["$at", {"$indexOfArray": ["$models", "$call.model"]}]}
    row = {
        "key": "$call.model",
        "turns": {"$cond": [first, 1, 0]},
        "failed_turns": {"$cond": [first, "$failed", 0]},
        "prompt_tokens": "$call.prompt_tokens",
        "completion_tokens": "$call.completion_tokens",
        "total_tokens": "$call.total_tokens",
        "cached_prompt_tokens": "$call.cached_prompt_tokens",
        "cache_write_tokens": "$call.cache_write_tokens",
        "reasoning_tokens": "$call.reasoning_tokens",
        "cost_usd": "$call.cost_usd",
        "unreported_calls": _not_above("$call.prompt_tokens", 0),
        "unpriced_calls": _not_above("$call.cost_usd", None),
        "latency_ms": "$call.latency_ms",
        "total_energy_kwh": {"$literal": 0.0},
        "total_co2_g": {"$literal": 0.0},
    }
    return [
        {"$project": {"_id": 0, "failed": _FAILED, "models": models, "call": "$llm_calls"}},
        {"$unwind": {"path": "$call", "includeArrayIndex": "at"}},
        {"$project": row},
    ]


def read_summaries(groups: Iterable[Document], by: UsageKey) -> list[UsageSummary]:
    """Return the summaries of a pipeline's result, by descending tokens, then by key."""
    summaries = [_summary(group, by) for group in groups]
    return sorted(summaries, key=lambda summary: (-summary.total_tokens, summary.key))


def _summary(group: Document, by: UsageKey) -> UsageSummary:
    p50, p95 = group["percentiles"]
    key = group["_id"]
    return UsageSummary(
        key=(_EPOCH + timedelta(days=int(key))).isoformat() if by == "day" else key,
        mean_latency_ms=group["mean_latency_ms"],
        p50_latency_ms=round(p50),
        p95_latency_ms=round(p95),
        max_latency_ms=group["max_latency_ms"],
        **{name: group[name] for name in _SUMS},
    )
