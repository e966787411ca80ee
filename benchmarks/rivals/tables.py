"""The tables of the documentation, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Found = Mapping[str, Any]
Column = tuple[str, Callable[[Found], str]]


def tables(found: Mapping[str, Found]) -> Iterator[str]:
    """A table for each kind of question; a row is a store."""
    yield _table(found, _INTEGRITY)
    yield _table(found, _FAULTS)
    yield _table(found, _CALLS)
    yield _table(found, _READS)
    yield _table(found, _WEIGHT)


def _table(found: Mapping[str, Found], columns: list[Column]) -> str:
    names = ["store", *(name for name, _ in columns)]
    lines = [names, ["---"] * len(names)]
    lines += [[store, *(cell(each) for _, cell in columns)] for store, each in found.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _count(scenario: str, *names: str) -> Callable[[Found], str]:
    """The figures of a scenario, `of` one another."""

    def cell(found: Found) -> str:
        figures = found.get(scenario)
        if figures is None:
            return "–"
        if "error" in figures:
            return "failed"
        return " of ".join(f"{figures[name]:,.0f}" for name in names if name in figures) or "–"

    return cell


def _times(scenario: str, name: str) -> Callable[[Found], str]:
    """The median and the 99th percentile, in ms."""

    def cell(found: Found) -> str:
        figures = found.get(scenario, {})
        if "error" in figures:
            return "failed"
        keys = [key for key in figures if key.startswith(name)]
        return " / ".join(_milliseconds(figures[key]) for key in keys) or "–"

    return cell


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f}" if seconds >= 0.1 else f"{seconds * 1e3:.2g}"


def _seconds(found: Found) -> str:
    seconds = found.get("at once", {}).get("seconds")
    return "–" if seconds is None else f"{seconds:.1f}"


def _megabytes(found: Found) -> str:
    return f"{found['weight']['bytes'] / 1e6:,.0f} MB"


def _bytes(found: Found) -> str:
    figures = found.get("long", {})
    return f"{figures['bytes']:,.0f}" if "bytes" in figures else "failed"


_INTEGRITY: list[Column] = [
    *((name, _count("at once", name)) for name in ("refused", "lost", "doubled", "torn")),
    ("out of order", _count("at once", "out of order")),
    ("seconds", _seconds),
    ("cannot go on after a kill", _count("killed", "cannot go on", "kills")),
    ("turns kept in part", _count("killed", "kept in part", "kills")),
]
_FAULTS: list[Column] = [
    ("replies dropped", _count("dropped", "dropped")),
    ("messages doubled", _count("dropped", "doubled")),
    ("missing", _count("dropped", "missing")),
    ("clock ahead: out of order", _count("ahead", "out of order", "messages")),
    ("clock ahead: lost", _count("ahead", "lost")),
    ("clocks stopped: out of order", _count("stopped", "out of order", "messages")),
    ("clocks stopped: lost", _count("stopped", "lost")),
    ("rows with an erased name", _count("erased", "left", "before")),
    ("in the files", _count("erased", "in the files")),
]
_CALLS: list[Column] = [
    (name, _times("calls", name)) for name in ("add one", "add a turn", "newest 20 of 200")
]
_READS: list[Column] = [
    ("newest 20 of a long session", _times("long", "newest")),
    ("a page of sessions", _times("lists", "a page")),
    ("bytes of a turn", _bytes),
]
_WEIGHT: list[Column] = [
    ("import", _times("weight", "import")),
    ("dependencies", _count("weight", "dependencies")),
    ("on disk", _megabytes),
]
