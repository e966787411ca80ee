"""Charts of usage: the numbers that the templates draw as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby
from typing import NamedTuple

from jazzmine.records.usage import UsageSummary

__all__ = ["Bar", "Column", "Columns", "bars", "columns"]

MOST_BARS = 50

# Above so many days, a column is a month.
MOST_DAYS = 124

HEIGHT = 100.0


@dataclass(frozen=True)
class Bar:
    """A group of turns; its bar is `width` percent of the longest."""

    usage: UsageSummary
    width: float


def bars(usages: Sequence[UsageSummary]) -> list[Bar]:
    """Return the bars of the groups with the most tokens."""
    longest = max((max(usage.total_tokens, 0) for usage in usages), default=0) or 1
    return [
        Bar(usage, round(100 * max(usage.total_tokens, 0) / longest, 2))
        for usage in usages[:MOST_BARS]
    ]


@dataclass(frozen=True)
class Column:
    """A day or a month: `x` and `width` in units of a column, `y` and `height` of `HEIGHT`."""

    label: str
    tokens: int
    turns: int
    failed: int
    cost: float
    unreported: int
    unpriced: int
    x: int
    y: float
    height: float


@dataclass(frozen=True)
class Columns:
    """A column for each day (or month) from the first with any usage to the last."""

    columns: list[Column]
    unit: str
    most: int

    @property
    def tokens(self) -> int:
        """The tokens of all columns."""
        return sum(column.tokens for column in self.columns)

    @property
    def turns(self) -> int:
        """The turns of all columns."""
        return sum(column.turns for column in self.columns)

    @property
    def failed(self) -> int:
        """The turns with errors of all columns."""
        return sum(column.failed for column in self.columns)

    @property
    def cost(self) -> float:
        """What the model calls of all columns cost, as far as it is known, in US dollars."""
        return sum(column.cost for column in self.columns)

    @property
    def unreported(self) -> int:
        """The model calls that did not report their tokens."""
        return sum(column.unreported for column in self.columns)

    @property
    def unpriced(self) -> int:
        """The model calls without a cost."""
        return sum(column.unpriced for column in self.columns)


class _Used(NamedTuple):
    label: str
    tokens: int = 0
    turns: int = 0
    failed: int = 0
    cost: float = 0.0
    unreported: int = 0
    unpriced: int = 0


def columns(usages: Iterable[UsageSummary]) -> Columns:
    """Return the chart of usage by day."""
    days = sorted(
        _Used(
            usage.key,
            usage.total_tokens,
            usage.turns,
            usage.failed_turns,
            usage.cost_usd,
            usage.unreported_calls,
            usage.unpriced_calls,
        )
        for usage in usages
    )
    if not days:
        return Columns([], "day", 0)
    first, last = (date.fromisoformat(each.label) for each in (days[0], days[-1]))
    count = (last - first).days + 1
    if count > MOST_DAYS:
        unit, used = "month", _months(days)
    else:
        by_label = {each.label: each for each in days}
        labels = [str(first + timedelta(days=each)) for each in range(count)]
        unit, used = "day", [by_label.get(label, _Used(label)) for label in labels]
    most = max(max(each.tokens for each in used), 0)
    drawn = []
    for x, each in enumerate(used):
        height = round(HEIGHT * max(each.tokens, 0) / (most or 1), 2)
        drawn.append(Column(*each, x, round(HEIGHT - height, 2), height))
    return Columns(drawn, unit, most)


def _months(days: Iterable[_Used]) -> list[_Used]:
    months = []
    for month, group in groupby(days, key=lambda day: day.label.rpartition("-")[0]):
        months.append(_Used(month, *map(sum, zip(*(day[1:] for day in group), strict=True))))
    return months
