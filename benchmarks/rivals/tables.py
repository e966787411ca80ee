"""What the documentation shows of a run: the tables, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Results = Mapping[str, Any]

# By the title of a column: the scenario, its figure, and how that is shown.
_INTEGRITY = {
    "refused": ("at once", "refused", ",.0f"),
    "lost": ("at once", "lost", ",.0f"),
    "torn": ("at once", "torn", ",.0f"),
    "seconds": ("at once", "seconds", ".1f"),
    "in part": ("killed", "in part", ",.0f"),
    "doubled": ("dropped", "doubled", ",.0f"),
    "clock ahead: refused": ("ahead", "refused", ",.0f"),
    "clock ahead: out of order": ("ahead", "out of order", ",.0f"),
    "clock ahead: lost": ("ahead", "lost", ",.0f"),
    "rows with an erased name": ("erased", "left", ",.0f"),
}
_COST = {
    "add one, ms": ("calls", "add one", "ms"),
    "add a turn, ms": ("calls", "add a turn", "ms"),
    "newest 20 of a long session, ms": ("long", "newest", "ms"),
    "bytes": ("long", "bytes", ",.0f"),
}


def report(machine: str, stores: Mapping[str, Results]) -> Iterator[str]:
    """The tables of a run, for `docs/rivals.md`.

    Args:
        machine: on what it ran.
        stores: the figures of each scenario by its name, by store.
    """
    yield "## Integrity"
    yield _table(stores, _INTEGRITY)
    yield "## Cost"
    yield _table(stores, _COST)
    yield f"Run on: {machine}."


def _table(stores: Mapping[str, Results], columns: Mapping[str, tuple[str, str, str]]) -> str:
    lines = [["store", *columns], ["---"] * (len(columns) + 1)]
    for store, results in stores.items():
        lines.append([store, *(_cell(results, *column) for column in columns.values())])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(results: Results, scenario: str, name: str, form: str) -> str:
    figures = results.get(scenario)
    if figures is None:
        return "–"
    if "error" in figures:
        return "failed"
    if form != "ms":
        return format(figures[name], form)
    milliseconds = figures[name] * 1e3
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.2g}"
