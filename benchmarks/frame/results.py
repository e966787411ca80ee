"""The measured values, and their table."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Literal

Unit = Literal["s", ""]


@dataclass(frozen=True)
class Pairs:
    """The values of both sides in every round; `other` is empty without a comparison."""

    ours: list[float]
    other: list[float]


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    label: str
    pairs: Pairs
    beside: str = "-"
    unit: Unit = "s"

    @property
    def ratios(self) -> list[float]:
        """Return the ratio of the costs of each pair."""
        both = zip(self.pairs.ours, self.pairs.other, strict=False)
        return [mine / theirs for mine, theirs in both]


HEADER = ("measured", "beside", "its median", "ours", "ratio", "min - max")


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
    return (
        row.label,
        row.beside,
        _value(statistics.median(row.pairs.other), row.unit) if row.pairs.other else "-",
        _value(statistics.median(row.pairs.ours), row.unit),
        f"{statistics.median(row.ratios):.2f} x its cost" if row.ratios else "-",
        _span(row),
    )


def _span(row: Row) -> str:
    if row.ratios:
        return f"{min(row.ratios):.2f} - {max(row.ratios):.2f}"
    lowest, highest = min(row.pairs.ours), max(row.pairs.ours)
    if lowest == highest:
        return "-"
    return f"{_value(lowest, row.unit)} - {_value(highest, row.unit)}"


def _value(value: float, unit: Unit) -> str:
    if unit == "":
        return f"{value:,.0f}"
    if value < 1e-3:
        return f"{value * 1e6:.1f} us"
    if value < 1:
        return f"{value * 1e3:.2f} ms"
    return f"{value:.2f} s"
