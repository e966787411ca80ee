"""Charts of usage: the numbers that the templates draw as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from jazzmine.records.usage import UsageSummary

MOST_BARS = 50

# Above so many days, a column is a month.
MOST_DAYS = 124

HEIGHT = 100.0

# What the columns sum up, by its name in the templates.
_SUMS = {
    "tokens": "total_tokens",
    "turns": "turns",
    "failed": "failed_turns",
    "cost": "cost_usd",
    "unreported": "unreported_calls",
    "unpriced": "unpriced_calls",
}


def bars(usages: Sequence[UsageSummary]) -> list[tuple[UsageSummary, float]]:
    """Return the groups with the most tokens, and their bars in percent of the longest."""
    longest = max((usage.total_tokens for usage in usages), default=0)
    return [(usage, _percent(usage.total_tokens, longest)) for usage in usages[:MOST_BARS]]


def columns(usages: Sequence[UsageSummary]) -> dict[str, Any]:
    """Return the chart of usage by day, with the sums of all days.

    It has a column for each day (or month) from the first with any usage to the last: its sums,
    `x` in units of a column, `y` and `height` of `HEIGHT`.
    """
    days = sorted(usages, key=lambda usage: usage.key)
    if not days:
        return {"columns": []}
    first, last = (date.fromisoformat(each.key) for each in (days[0], days[-1]))
    count = (last - first).days + 1
    unit = "month" if count > MOST_DAYS else "day"
    groups: dict[str, list[UsageSummary]] = {}
    if unit == "day":
        groups = {str(first + timedelta(days=each)): [] for each in range(count)}
    for each in days:
        label = each.key if unit == "day" else each.key.rpartition("-")[0]
        groups.setdefault(label, []).append(each)
    drawn = [{"label": label, **_sums(group)} for label, group in groups.items()]
    most = max(0, *(column["tokens"] for column in drawn))
    for x, column in enumerate(drawn):
        height = _percent(column["tokens"], most)
        column.update(x=x, y=round(HEIGHT - height, 2), height=height)
    return {"columns": drawn, "unit": unit, "most": most, **_sums(days)}


def _sums(usages: Sequence[UsageSummary]) -> dict[str, Any]:
    return {name: sum(getattr(each, field) for each in usages) for name, field in _SUMS.items()}


def _percent(tokens: int, most: int) -> float:
    return round(100 * max(tokens, 0) / max(most, 1), 2)
