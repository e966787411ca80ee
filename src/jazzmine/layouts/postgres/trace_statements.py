"""The statements that look back at traces: what a filter means, found or summed up.

They are put together from the conditions that a filter has, and planned for its very values: a
plan for any values would not know which index finds the fewest rows.
"""

from __future__ import annotations

from collections.abc import Collection

from jazzmine.layouts.postgres.statements import TRACE_COLUMNS
from jazzmine.records.types import MAX_INT, MIN_INT
from jazzmine.records.usage import UsageKey

__all__ = ["find_traces", "summarize"]


def _some_element(column: str, wanted: str) -> str:
    """Some element has the wanted fields with exactly these values; they are in a list of one.

    Containment, which an index finds, is not enough: {"a": {}} is contained in {"a": {"b": 1}}.
    """
    return f"""{column} @> %({wanted})s::jsonb
    AND EXISTS (
        SELECT FROM jsonb_array_elements({column}) AS element (value)
        WHERE NOT EXISTS (
            SELECT FROM jsonb_each(%({wanted})s::jsonb -> 0) AS field
            WHERE element.value -> field.key IS DISTINCT FROM field.value))"""


CONDITIONS = {
    "agent_id": "agent_id = %(agent_id)s",
    "user_id": "user_id = %(user_id)s",
    "conversation_id": "conversation_id = %(conversation_id)s",
    "intent": "detected_intent = %(intent)s",
    "started_from": "started_at_ms >= %(started_from)s",
    "started_until": "started_at_ms < %(started_until)s",
    "min_total_tokens": "total_tokens >= %(min_total_tokens)s",
    "min_latency_ms": "total_latency_ms >= %(min_latency_ms)s",
    "errors": "errors <> '[]'",
    "no_errors": "errors = '[]'",
    "tool": _some_element("tool_traces", "tool"),
    "llm_call": _some_element("llm_calls", "llm_call"),
}
"""What each condition of a filter says in SQL; `has_errors` is one of two."""

_CONTAINMENTS = {"tool", "llm_call"}


def _where(conditions: Collection[str]) -> str:
    return "\n    AND ".join(CONDITIONS[name] for name in sorted(conditions)) or "true"


def find_traces(conditions: Collection[str], after: bool) -> str:
    """Return the statement for a filter with these conditions, newest first.

    With `after`, no row at all says that there is no such trace, one row of nulls that nothing
    stands behind it.
    """
    where = _where(conditions)
    if after:
        where += "\n    AND (started_at_ms, seq) < (mark.started_at_ms, mark.seq)"
    # The fence keeps the planner from walking through all traces in their order, in the hope of
    # meeting enough that match soon: it cannot know how rare a containment is.
    fence = "OFFSET 0" if _CONTAINMENTS & set(conditions) else ""
    page = f"""
SELECT {TRACE_COLUMNS}
FROM (
    SELECT * FROM $schema.turn_traces
    WHERE {where}
    {fence}
) AS meant
ORDER BY started_at_ms DESC, seq DESC
LIMIT %(limit)s
"""
    if not after:
        return page
    return f"""
SELECT page.*
FROM (SELECT started_at_ms, seq FROM $schema.turn_traces WHERE id = %(after)s) AS mark
LEFT JOIN LATERAL ({page}) AS page ON true
ORDER BY page.started_at_ms DESC, page.seq DESC
"""


_KEYS: dict[UsageKey, str] = {
    "agent": "agent_id",
    "user": "user_id",
    "conversation": "conversation_id",
    "intent": "detected_intent",
    # Days since the epoch; those that no calendar has count as its first and its last.
    "day": """to_char(
        date '1970-01-01'
        + greatest(-719162, least(2932896, floor(started_at_ms::numeric / 86400000)))::integer,
        'YYYY-MM-DD')""",
}


def summarize(conditions: Collection[str], by: UsageKey, *, lenient: bool = False) -> str:
    """Return the statement that sums up the traces that match these conditions.

    Args:
        conditions: those of the filter.
        by: what to group by.
        lenient: whether to read NaN and infinity as 0, and an integer beyond 64 bits as the
            nearest that fits. jazzmine 0.1 stored such; looking for them doubles the time.
    """
    if by == "model":
        return _summarize_models(conditions, lenient)
    finite = "FILTER (WHERE {0} - {0} = 0)" if lenient else ""
    kwh, co2 = (
        f"coalesce(sum({name}) {finite.format(name)}, 0)"
        for name in ("total_energy_kwh", "total_co2_g")
    )
    return f"""
SELECT
    {_KEYS[by]} AS key,
    count(*),
    count(*) FILTER (WHERE errors <> '[]'),
    sum(total_prompt_tokens), sum(total_completion_tokens), sum(total_tokens),
    count(*), sum(total_latency_ms),
    percentile_disc(0.5) WITHIN GROUP (ORDER BY total_latency_ms),
    percentile_disc(0.95) WITHIN GROUP (ORDER BY total_latency_ms),
    max(total_latency_ms),
    {kwh}, {co2}
FROM $schema.turn_traces
WHERE {_where(conditions)}
GROUP BY 1
"""


_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens", "latency_ms")


def _calls(lenient: bool) -> str:
    if not lenient:
        fields = ", ".join(f"{name} bigint" for name in _COUNTS)
        return f"jsonb_to_recordset(llm_calls) AS call (model text, {fields})"
    fields = ", ".join(f"{name} numeric" for name in _COUNTS)
    fitting = ", ".join(
        f"greatest(least({name}, {MAX_INT}), {MIN_INT})::bigint AS {name}" for name in _COUNTS
    )
    return f"""(
    SELECT model, {fitting}
    FROM jsonb_to_recordset(llm_calls) AS stored (model text, {fields})
) AS call"""


def _summarize_models(conditions: Collection[str], lenient: bool) -> str:
    return f"""
SELECT
    call.model AS key,
    count(DISTINCT seq),
    count(DISTINCT seq) FILTER (WHERE errors <> '[]'),
    sum(call.prompt_tokens), sum(call.completion_tokens), sum(call.total_tokens),
    count(*), sum(call.latency_ms),
    percentile_disc(0.5) WITHIN GROUP (ORDER BY call.latency_ms),
    percentile_disc(0.95) WITHIN GROUP (ORDER BY call.latency_ms),
    max(call.latency_ms),
    0.0::float8, 0.0::float8
FROM (
    SELECT seq, errors, llm_calls FROM $schema.turn_traces
    WHERE {_where(conditions)}
) AS meant
CROSS JOIN LATERAL {_calls(lenient)}
GROUP BY 1
"""
