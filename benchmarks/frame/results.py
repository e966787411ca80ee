"""The measured values, the limits that they must reach, and the table of both."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Literal

Unit = Literal["s", "B", ""]


@dataclass(frozen=True)
class Pairs:
    """Both sides of every round; `other` is empty where nothing was compared."""

    ours: list[float]
    other: list[float]


Series = dict[str, Pairs]


@dataclass(frozen=True)
class Bar:
    """What a row must reach: a ratio of the two sides or a value of ours."""

    kind: Literal["times as fast", "times its cost", "at most", "exactly"]
    limit: float


def at_least_as_fast(times: float) -> Bar:
    """The other side must take at least so many times as long."""
    return Bar("times as fast", times)


def within(times: float) -> Bar:
    """Ours may cost at most so many times what the other side costs."""
    return Bar("times its cost", times)


def at_most(value: float) -> Bar:
    return Bar("at most", value)


def exactly(value: float) -> Bar:
    return Bar("exactly", value)


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    label: str
    pairs: Pairs
    bar: Bar | None = None
    beside: str = "predecessor"
    unit: Unit = "s"
    as_speed: bool = False
    """Tell the ratio as speed although no bar asks for it."""

    @property
    def ratios(self) -> list[float]:
        """Pair by pair: how many times as fast ours is, or how many times its cost."""
        both = list(zip(self.pairs.ours, self.pairs.other, strict=False))
        if self.tells_speed:
            return [theirs / mine for mine, theirs in both]
        return [mine / theirs for mine, theirs in both]

    @property
    def tells_speed(self) -> bool:
        return self.as_speed or (self.bar is not None and self.bar.kind == "times as fast")

    @property
    def reached(self) -> bool | None:
        """Whether the median reaches the bar; None where there is none to reach."""
        if self.bar is None:
            return None
        limit = self.bar.limit
        if self.bar.kind == "times as fast":
            return statistics.median(self.ratios) >= limit
        if self.bar.kind == "times its cost":
            return statistics.median(self.ratios) <= limit
        if self.bar.kind == "exactly":
            return all(value == limit for value in self.pairs.ours)
        return statistics.median(self.pairs.ours) <= limit

    def to_dict(self) -> dict[str, object]:
        """The raw numbers, for a file."""
        return {
            "label": self.label,
            "beside": self.beside if self.pairs.other else None,
            "unit": self.unit,
            "ours": self.pairs.ours,
            "other": self.pairs.other,
            "ratios": self.ratios,
            "ratio": statistics.median(self.ratios) if self.ratios else None,
            "bar": None if self.bar is None else [self.bar.kind, self.bar.limit],
            "reached": self.reached,
        }


HEADER = (
    "measured",
    "beside",
    "its median",
    "ours",
    "ratio",
    "min - max",
    "must reach",
    "reached",
)


def table(rows: list[Row]) -> str:
    """The rows as aligned text, a header above them."""
    lines = [HEADER, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    padded = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    return "\n".join(padded)


def _cells(row: Row) -> tuple[str, ...]:
    ratios, bar = row.ratios, row.bar
    suffix = "x as fast" if row.tells_speed else "x its cost"
    return (
        row.label,
        row.beside if row.pairs.other else "-",
        _value(statistics.median(row.pairs.other), row.unit) if row.pairs.other else "-",
        _value(statistics.median(row.pairs.ours), row.unit),
        f"{statistics.median(ratios):.2f} {suffix}" if ratios else "-",
        _span(row),
        _bar(bar, row.unit),
        {None: "-", True: "yes", False: "NO"}[row.reached],
    )


def _span(row: Row) -> str:
    if row.ratios:
        return f"{min(row.ratios):.2f} - {max(row.ratios):.2f}"
    lowest, highest = min(row.pairs.ours), max(row.pairs.ours)
    if lowest == highest:
        return "-"
    return f"{_value(lowest, row.unit)} - {_value(highest, row.unit)}"


def _bar(bar: Bar | None, unit: Unit) -> str:
    if bar is None:
        return "-"
    if bar.kind == "exactly":
        return _value(bar.limit, unit)
    if bar.kind == "at most":
        return f"<= {_value(bar.limit, unit)}"
    return f"{'>=' if bar.kind == 'times as fast' else '<='} {bar.limit:g} x"


def _value(value: float, unit: Unit) -> str:
    if unit == "B":
        return f"{value / 1e6:.1f} MB"
    if unit == "":
        return f"{value:,.0f}"
    if value < 1e-3:
        return f"{value * 1e6:.1f} us"
    if value < 1:
        return f"{value * 1e3:.2f} ms"
    return f"{value:.2f} s"
