"""The measured values, the limits for them, and the table of both."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Literal

Unit = Literal["s", "B", ""]


@dataclass(frozen=True)
class Pairs:
    """The values of both sides in every round; `other` is empty without a comparison."""

    ours: list[float]
    other: list[float]


Series = dict[str, Pairs]


@dataclass(frozen=True)
class Bar:
    """The limit of a row: for the ratio of the two sides, or for our value."""

    kind: Literal["times as fast", "times its cost", "at most", "exactly"]
    limit: float


def within(times: float) -> Bar:
    """Our value may be at most this many times the other one."""
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
    """Whether to show the ratio as a speed, even without a limit."""

    @property
    def ratios(self) -> list[float]:
        """Return the ratio of each pair: of the speeds, or of the costs."""
        both = list(zip(self.pairs.ours, self.pairs.other, strict=False))
        if self.tells_speed:
            return [theirs / mine for mine, theirs in both]
        return [mine / theirs for mine, theirs in both]

    @property
    def tells_speed(self) -> bool:
        return self.as_speed or (self.bar is not None and self.bar.kind == "times as fast")

    @property
    def reached(self) -> bool | None:
        """Return whether the median is within the limit; None without a limit."""
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
