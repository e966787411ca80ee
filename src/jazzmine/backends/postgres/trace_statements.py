"""Build the statements that find or sum up the traces that match a filter."""

from __future__ import annotations

from collections.abc import Iterable

from jazzmine.backends.columns import TURN_TRACES
from jazzmine.backends.postgres.pages import page, same_values, select
from jazzmine.backends.postgres.text import json_text, to_text
from jazzmine.records.usage import TraceFilter, UsageKey

OF_AGENT = "agent_id = %(agent_id)s"
"""The condition of a filter for an agent alone."""

_CONDITIONS = {
    "agent_id": OF_AGENT,
    "user_id": "user_id = %(user_id)s",
    "conversation_id": "conversation_id = %(conversation_id)s",
    "intent": "detected_intent = %(intent)s",
    "started_from": "started_at_ms >= %(started_from)s",
    "started_until": "started_at_ms < %(started_until)s",
    "min_total_tokens": "total_tokens >= %(min_total_tokens)s",
    "min_latency_ms": "total_latency_ms >= %(min_latency_ms)s",
    "tool": "tool_traces @> %(tool)s::jsonb",
    "llm_call": "llm_calls @> %(llm_call)s::jsonb",
}
# The wanted element is in a list.
_EXACTLY = """EXISTS (
        SELECT FROM jsonb_array_elements({column}) AS element (value)
        WHERE {same})"""
_LISTS = {"tool": "tool_traces", "llm_call": "llm_calls"}
_ERRORS = {
    True: "errors <> '[]'",
    # The planner has no statistics of content, and takes a CASE for one that is often true.
    False: "CASE WHEN errors = '[]' THEN true ELSE false END",
}


def filter_condition(where: TraceFilter) -> tuple[str, dict[str, object]]:
    """Return the condition of a filter, and its parameters."""
    conditions: list[str] = []
    parameters: dict[str, object] = {}
    for name, condition in _CONDITIONS.items():
        value = getattr(where, name)
        if value is None:
            continue
        conditions.append(condition)
        if isinstance(value, dict):
            parameters[name] = json_text([value])
            if any(isinstance(each, (dict, list)) for each in value.values()):
                same = same_values("element.value", f"%({name})s::jsonb -> 0")
                conditions.append(_EXACTLY.format(column=_LISTS[name], same=same))
        else:
            parameters[name] = to_text(value) if isinstance(value, str) else value
    if where.has_errors is not None:
        conditions.append(_ERRORS[where.has_errors])
    return "\n    AND ".join(conditions) or "true", parameters


def find_traces(condition: str, after: bool, limit: int, offset: int = 0) -> str:
    """Return the statement for a page of the traces that match a filter, newest first."""
    skipped = " OFFSET %(offset)s" if offset else ""

    def rows(later: str) -> str:
        return select(TURN_TRACES, condition + later, "DESC", limit) + skipped

    return page(TURN_TRACES, rows, "DESC", after)


_KEYS: dict[UsageKey, str] = {
    "agent": "agent_id",
    "user": "user_id",
    "conversation": "conversation_id",
    "intent": "detected_intent",
    # Days since the epoch; days outside of the calendar become its first or last day.
    "day": """to_char(
        date '1970-01-01'
        + greatest(-719162, least(2932896, floor(started_at_ms::numeric / 86400000)))::integer,
        'YYYY-MM-DD')""",
}


_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens", "latency_ms")
_DETAILS = ("cached_prompt_tokens", "cache_write_tokens", "reasoning_tokens", "cost_usd")
# The calls that did not report their tokens, and those without a cost.
_MISSING = {
    "unreported_calls": "(coalesce(prompt_tokens, 0) <= 0)::int",
    "unpriced_calls": "(cost_usd IS NULL)::int",
}


def summarize(condition: str, by: UsageKey) -> str:
    """Return the statement for the sums of `UsageSummary` over the traces that match a filter."""
    where = f"copied_from IS NULL AND {condition}"
    details = (*_DETAILS, *_MISSING)
    # One row for each call of a model, or for each trace.
    if by == "model":
        rows = f"""
    SELECT model AS key, seq, errors, {", ".join((*_COUNTS, *details))},
        0.0::float8 AS energy_kwh, 0.0::float8 AS co2_g
    FROM (SELECT seq, errors, llm_calls FROM $schema.turn_traces WHERE {where}) AS matching
    CROSS JOIN LATERAL {_calls((*_COUNTS, *_DETAILS))}"""
    else:
        rows = f"""
    SELECT {_KEYS[by]} AS key, seq, errors, total_prompt_tokens AS prompt_tokens,
        total_completion_tokens AS completion_tokens, total_tokens, total_latency_ms AS latency_ms,
        calls.*, total_energy_kwh AS energy_kwh, total_co2_g AS co2_g
    FROM $schema.turn_traces
    CROSS JOIN LATERAL (
        SELECT {", ".join(f"sum({name}) AS {name}" for name in details)}
        FROM {_calls(("prompt_tokens", *_DETAILS))}
    ) AS calls
    WHERE {where}"""
    return f"""
SELECT key, count(DISTINCT seq), count(DISTINCT seq) FILTER (WHERE errors <> '[]'),
    sum(prompt_tokens), sum(completion_tokens), sum(total_tokens),
    {", ".join(f"coalesce(sum({name}), 0)" for name in details)},
    sum(latency_ms)::float8 / count(*),
    percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ms),
    percentile_disc(0.95) WITHIN GROUP (ORDER BY latency_ms),
    max(latency_ms),
    coalesce(sum(energy_kwh), 0), coalesce(sum(co2_g), 0)
FROM ({rows}
) AS summed
GROUP BY key
"""


def _calls(names: Iterable[str]) -> str:
    """Return the table of the calls of a trace, which has these fields and the model."""
    kinds = {"cost_usd": "float8"}
    fields = ", ".join(f"{name} {kinds.get(name, 'bigint')}" for name in names)
    missing = ", ".join(f"{condition} AS {name}" for name, condition in _MISSING.items())
    return f"""(
    SELECT *, {missing} FROM jsonb_to_recordset(llm_calls) AS stored (model text, {fields})
) AS call"""
