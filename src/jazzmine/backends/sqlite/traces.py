"""Find and sum up the traces that match a filter.

The database finds them by their columns, on an index. What a filter says about the elements of
their lists it checks roughly, since SQLite cannot compare JSON exactly: the rest is done here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any

from jazzmine.backends.sqlite import statements as sql
from jazzmine.backends.sqlite.queries import limit_of
from jazzmine.backends.sqlite.rows import TRACES, Row
from jazzmine.backends.trace_queries import matches, utc_day
from jazzmine.backends.trace_queries import summarize as summarize_traces
from jazzmine.errors import NotFoundError
from jazzmine.records.repair import Repairs
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

__all__ = ["find_traces", "summarize"]

_CONDITIONS = {
    "agent_id": "agent_id = ?",
    "user_id": "user_id = ?",
    "conversation_id": "conversation_id = ?",
    "intent": "detected_intent = ?",
    "started_from": "started_at_ms >= ?",
    "started_until": "started_at_ms < ?",
    "min_total_tokens": "total_tokens >= ?",
    "min_latency_ms": "total_latency_ms >= ?",
}
_LISTS = {"tool": "tool_traces", "llm_call": "llm_calls"}

_NEWEST_FIRST = "ORDER BY started_at_ms DESC, seq DESC"


def _where(where: TraceFilter) -> tuple[str, list[Any]]:
    """Return the conditions of a filter in SQL and their parameters; more traces may match."""
    conditions: list[str] = []
    parameters: list[Any] = []
    for name, condition in _CONDITIONS.items():
        value = getattr(where, name)
        if value is not None:
            conditions.append(condition)
            parameters.append(value)
    if where.has_errors is not None:
        conditions.append("has_errors" if where.has_errors else "NOT has_errors")
    for name, field in _LISTS.items():
        wanted = getattr(where, name)
        if wanted is not None:
            condition, values = _element(field, wanted)
            conditions.append(condition)
            parameters += values
    return " AND ".join(conditions) or "true", parameters


def _element(field: str, wanted: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return the condition that some element of a list has the wanted texts and integers.

    Older versions of SQLite read U+0000 in JSON as the end of the text, and may read a float as
    its neighbour: such values are left to `matches`.
    """
    tests: list[str] = []
    values: list[Any] = []
    for name, value in wanted.items():
        if isinstance(value, bool) or value is None:
            kind = "null" if value is None else str(value).lower()
            tests.append(f"json_type(element.value, '$.{name}') = '{kind}'")
        elif isinstance(value, int) or (isinstance(value, str) and "\0" not in value):
            tests.append(f"json_extract(element.value, '$.{name}') = ?")
            values.append(value)
    test = f"CASE element.type WHEN 'object' THEN {' AND '.join(tests) or 'true'} END"
    # A body that another program wrote, and that is not JSON in SQLite's eyes, is left as well.
    return (
        "CASE WHEN json_valid(body) THEN EXISTS ("
        f"SELECT 1 FROM json_each(body, '$.{field}') AS element WHERE {test}) ELSE true END",
        values,
    )


def find_traces(
    connection: sqlite3.Connection,
    where: TraceFilter,
    limit: int,
    after: str | None,
    repairs: Repairs,
) -> list[TurnTrace]:
    """Return a page of the traces that match, newest first.

    Raises:
        NotFoundError: `after` is the id of no trace.
    """
    condition, parameters = _where(where)
    if after is not None:
        connection.execute("BEGIN")
        cursor = connection.execute(sql.TRACE_CURSOR, [after]).fetchone()
        if cursor is None:
            raise NotFoundError(f"after={after!r} is the id of no trace")
        condition += " AND (started_at_ms, seq) < (?, ?)"
        parameters += cursor
    query = f"SELECT id, body FROM stored_turn_traces WHERE {condition} {_NEWEST_FIRST}"
    if where.tool is None and where.llm_call is None:
        rows = connection.execute(f"{query} LIMIT ?", [*parameters, limit_of(limit)]).fetchall()
        return TRACES.records(rows, repairs)
    with closing(connection.execute(query, parameters)) as found:
        return list(islice(_matching(found, where, repairs), limit))


def _matching(rows: Iterable[Row], where: TraceFilter, repairs: Repairs) -> Iterator[TurnTrace]:
    """Yield the traces of the rows that match a filter and can be read."""
    for trace in repairs.readable(rows, lambda row: TRACES.record(row, repairs)):
        if matches(where, trace):
            yield trace


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
_SUMMED = ("total_prompt_tokens", "total_completion_tokens", "total_tokens", "total_latency_ms")


def summarize(
    connection: sqlite3.Connection, where: TraceFilter, by: UsageKey, repairs: Repairs
) -> list[UsageSummary]:
    """Sum up the traces that match in groups, sorted by descending tokens, then by key."""
    condition, parameters = _where(where)
    if by == "model" or where.tool is not None or where.llm_call is not None:
        query = f"SELECT id, body FROM stored_turn_traces WHERE {condition}"
        with closing(connection.execute(query, parameters)) as found:
            return summarize_traces(_matching(found, where, repairs), by)
    rows = connection.execute(_summary_query(condition, _KEYS[by]), parameters)
    summaries = [_summary(row, by) for row in rows.fetchall()]
    return sorted(summaries, key=lambda summary: (-summary.total_tokens, summary.key))


def _summary_query(condition: str, key: str) -> str:
    # Half of an integer at a time: SQLite refuses a sum beyond 64 bits.
    sums = ", ".join(f"sum({name} >> 32), sum({name} & 0xffffffff)" for name in _SUMMED)
    ranks = ", ".join(
        f"max(CASE rank WHEN ({percent} * turns + 99) / 100 THEN total_latency_ms END)"
        for percent in (50, 95)
    )
    # Another program may have stored infinity.
    finite = ", ".join(
        f"total(CASE WHEN abs({name}) < 9e999 THEN {name} END)"
        for name in ("total_energy_kwh", "total_co2_g")
    )
    return f"""
WITH matching AS (
    SELECT {key} AS key, has_errors, {", ".join(_SUMMED)}, total_energy_kwh, total_co2_g
    FROM stored_turn_traces WHERE {condition}
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY key ORDER BY total_latency_ms) AS rank,
        count(*) OVER (PARTITION BY key) AS turns
    FROM matching
)
SELECT key, count(*), sum(has_errors), {sums}, {ranks}, max(total_latency_ms), {finite}
FROM ranked GROUP BY key
"""


def _summary(row: Row, by: UsageKey) -> UsageSummary:
    key, turns, failed, *halves, p50, p95, longest, kwh, co2 = row
    prompt, completion, total, latency = (
        (high << 32) + low for high, low in zip(halves[::2], halves[1::2], strict=True)
    )
    return UsageSummary(
        key=utc_day(key * _MS_A_DAY) if by == "day" else key.decode(errors="replace"),
        turns=turns,
        failed_turns=failed,
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=total,
        mean_latency_ms=latency / turns,
        p50_latency_ms=p50,
        p95_latency_ms=p95,
        max_latency_ms=longest,
        total_energy_kwh=kwh,
        total_co2_g=co2,
    )
