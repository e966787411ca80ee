"""The queries that find and sum up the traces which match a filter."""

from __future__ import annotations

import json
import sqlite3
from datetime import date, timedelta
from typing import Any

from jazzmine.backends.sqlite import queries
from jazzmine.backends.sqlite.rows import TABLES
from jazzmine.records.hook_arguments import TracePage
from jazzmine.records.rows import Row
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

_CONDITIONS = {
    "agent_id": "agent_id = ?",
    "user_id": "user_id = ?",
    "conversation_id": "conversation_id = ?",
    "intent": "detected_intent = ?",
    "started_from": "started_at_ms >= ?",
    "started_until": "started_at_ms < ?",
    "min_total_tokens": "total_tokens >= ?",
    "min_latency_ms": "total_latency_ms >= ?",
    "tool": "jazzmine_any_contains(body, 'tool_traces', ?)",
    "llm_call": "jazzmine_any_contains(body, 'llm_calls', ?)",
}


def _conditions(where: TraceFilter) -> dict[str, object]:
    """Return the conditions of a filter in SQL with their parameters."""
    conditions: dict[str, object] = {"true": None}
    if where.has_errors is not None:
        conditions["has_errors" if where.has_errors else "NOT has_errors"] = None
    for name, condition in _CONDITIONS.items():
        value = getattr(where, name)
        if value is not None:
            conditions[condition] = json.dumps(value) if isinstance(value, dict) else value
    return conditions


def find_traces(connection: sqlite3.Connection, page: TracePage) -> list[Row]:
    """Return a page of the traces that match, newest first.

    Raises:
        NotFoundError: `after` is the id of no trace.
    """
    where, limit, after, offset = page
    conditions = _conditions(where)
    return queries.page(
        connection, TABLES["traces"], "started_at_ms DESC", conditions, limit, after, offset
    )


_MS_A_DAY = 86_400_000

_KEYS: dict[UsageKey, str] = {
    "agent": "agent_id",
    "user": "user_id",
    "conversation": "conversation_id",
    "intent": "detected_intent",
    # Days since the epoch; days outside of the calendar become its first or last day.
    "day": f"""max(-719162, min(2932896,
        started_at_ms / {_MS_A_DAY} - (started_at_ms % {_MS_A_DAY} < 0)))""",
}

_TURNS = """
    SELECT {key} AS key, seq, has_errors, total_prompt_tokens AS prompt_tokens,
        total_completion_tokens AS completion_tokens, total_tokens, total_latency_ms AS latency,
        total_energy_kwh, total_co2_g, cached_prompt_tokens, cache_write_tokens, reasoning_tokens,
        cost_usd, unreported_calls, unpriced_calls
    FROM stored_turn_traces WHERE {condition}"""
_TOKENS = [
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "cached_prompt_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
]


def _of_call(name: str) -> str:
    return f"CAST(json_extract(call.value, '$.{name}') AS INTEGER) AS {name}"


# The key is JSON, because a text ends at U+0000 for older versions of SQLite.
_MODEL = "json_extract(call.value, '$.model', '$.model')"
# What is beyond 64 bits becomes the largest integer.
_CALLS = f"""
    SELECT {_MODEL} AS key, turns.seq, has_errors,
        {", ".join(map(_of_call, _TOKENS))},
        CAST(coalesce(json_extract(call.value, '$.latency_ms'), 0) AS INTEGER) AS latency,
        0 AS total_energy_kwh, 0 AS total_co2_g,
        CAST(json_extract(call.value, '$.cost_usd') AS REAL) AS cost_usd,
        coalesce(json_extract(call.value, '$.prompt_tokens'), 0) <= 0 AS unreported_calls,
        json_extract(call.value, '$.cost_usd') IS NULL AS unpriced_calls
    FROM stored_turn_traces AS turns, json_each(
        CASE WHEN json_valid(body) THEN body ELSE 'null' END, '$.llm_calls'
    ) AS call
    WHERE {{condition}}"""

_OF_TURNS = "count(*) AS turns, sum(has_errors) AS failed_turns"
_OF_CALLS = """count(DISTINCT seq) AS turns,
    count(DISTINCT CASE WHEN has_errors THEN seq END) AS failed_turns"""
# SQLite refuses a sum() beyond 64 bits. Another program may have stored infinity.
_TOTALS = ", ".join(
    [
        f"CAST(total({name}) AS INTEGER) AS {name}"
        for name in (*_TOKENS, "unreported_calls", "unpriced_calls")
    ]
    + [
        f"total(CASE WHEN abs({name}) < 9e999 THEN {name} END) AS {name}"
        for name in ("cost_usd", "total_energy_kwh", "total_co2_g")
    ]
)
_SUMS = f"""
WITH matching AS ({{matching}}), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY key ORDER BY latency) AS rank,
        count(*) OVER (PARTITION BY key) AS count
    FROM matching
)
SELECT key, {{turns}}, {_TOTALS}, avg(latency) AS mean_latency_ms,
    max(CASE rank WHEN (50 * count + 99) / 100 THEN latency END) AS p50_latency_ms,
    max(CASE rank WHEN (95 * count + 99) / 100 THEN latency END) AS p95_latency_ms,
    max(latency) AS max_latency_ms
FROM ranked GROUP BY key
"""


def summarize(
    connection: sqlite3.Connection, where: TraceFilter, by: UsageKey
) -> list[UsageSummary]:
    """Sum up the traces that match in groups, sorted by descending tokens, then by key."""
    conditions = _conditions(where)
    if by == "model":
        key, matching, turns = _MODEL, _CALLS, _OF_CALLS
    else:
        key, matching, turns = _KEYS[by], _TURNS, _OF_TURNS
    condition = " AND ".join(["NOT is_copy", *conditions])
    parameters = [value for value in conditions.values() if value is not None]
    query = _SUMS.format(matching=matching.format(key=key, condition=condition), turns=turns)
    rows = connection.execute(query, parameters)
    names = [column[0] for column in rows.description]
    groups = [dict(zip(names, row, strict=True)) for row in rows]
    summaries = [UsageSummary(**{**group, "key": _key(group["key"], by)}) for group in groups]
    return sorted(summaries, key=lambda summary: (-summary.total_tokens, summary.key))


def _key(key: Any, by: UsageKey) -> str:
    if by == "day":
        return _iso_date(key)
    return str(json.loads(key)[0]) if by == "model" else str(key, "utf-8", "replace")


def _iso_date(days: int) -> str:
    """Return the day so many days after 1970-01-01; beyond the calendar its first or last one."""
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return (date.min if days < 0 else date.max).isoformat()
