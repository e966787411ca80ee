"""What the documentation shows of a run: what was measured, and the tables, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Results = Mapping[str, Any]
Column = tuple[str, Callable[[Results], str]]


def report(
    machine: str,
    sizes: Mapping[str, object],
    stores: Mapping[str, Results],
    libraries: Mapping[str, Results],
) -> Iterator[str]:
    """The paragraphs and tables of a run, which `docs/rivals.md` has as they are.

    Args:
        machine: on what it ran.
        sizes: the options of the run.
        stores: the figures of each scenario by its name, by store.
        libraries: the versions and the weight of each library.
    """
    yield "## Integrity"
    yield _AT_ONCE.format(**sizes)
    yield _table("store", stores, _INTEGRITY)
    yield _FAULTY.format(**sizes)
    yield _table("store", stores, _FAULTS)
    yield "## Cost"
    yield _TIMES.format(**sizes)
    yield _table("store", stores, _CALLS)
    yield _LONG.format(**sizes)
    yield _table("store", stores, _READS)
    yield _WEIGHTS
    yield _table("library", libraries, _WEIGHT)
    yield f"Run on: {machine}."


_AT_ONCE = """\
{processes} processes added {each} messages each to one session, two at a time. *Refused*: the
call raised. *Lost*: the call returned, and the messages are not there. *Torn*: pairs with other
messages between the two. *Out of order*: after a later message of the same process.

A process was killed (`kill -9`) in the middle of a turn with a call of a tool, {kills} times.
The session *cannot go on* if what the framework would send to the model next has a call without
a result: OpenAI Agents and ADK drop such calls when they read, LangGraph resumes the run. *Kept
in part*: the question, and perhaps more, is there."""

_FAULTY = """\
*Dropped*: the first reply to adding a turn of four messages, the second, and so on, five times
each, through a proxy that cuts the connection; the caller adds the same messages again. *Given
up*: turns that were refused three times. *Clock ahead*: two processes add {alternating}
messages in turn, and the clock of one is 400 ms ahead. There is one clock where there is one
SQLite file. *Clocks stopped*: both stand still, so that all times are equal. LangGraph's
checkpoints have ids that are made of the time at 100 ns, so a clock that stands still is worse
for it than any real one. *Erased name*: of the rows that held the user's name in ids, titles
and texts, how many hold it after the user or the sessions were erased with the library's means,
how often it is in the bytes of the SQLite files, and how many of another user's messages went
too."""

_TIMES = """\
Median and 99th percentile in ms, of {times} calls. A turn has four messages of some 170
characters, and each store had a session of 200 messages. The stores took turns, 20 calls each,
so that the machine's changes of speed met all of them: **read the ratios**."""

_LONG = """\
The long session has {long:,} messages, a user lists {sessions:,} sessions: a page of 100 where
there are pages, all of them with ADK. These were measured one store after another. *Bytes of a
turn*: by how much the data of a session of {turns:,} turns grow with one more, after `VACUUM`
(`VACUUM FULL` on PostgreSQL). The texts repeat themselves, and PostgreSQL compresses large
values, so LangGraph's copies of the whole list of messages are much smaller there."""

_WEIGHTS = """\
The import of what an application imports from the library in ms, the packages that come with it
(its drivers for PostgreSQL and SQLite included), and the bytes of all of them."""


def _table(name: str, rows: Mapping[str, Results], columns: list[Column]) -> str:
    names = [name, *(title for title, _ in columns)]
    lines = [names, ["---"] * len(names)]
    lines += [[row, *(cell(results) for _, cell in columns)] for row, results in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _count(scenario: str, *names: str) -> Callable[[Results], str]:
    """The figures of a scenario, `of` one another."""

    def cell(results: Results) -> str:
        figures = results.get(scenario)
        if figures is None:
            return "–"
        if "error" in figures:
            return "failed"
        return " of ".join(f"{figures[name]:,.0f}" for name in names if name in figures) or "–"

    return cell


def _times(scenario: str, name: str) -> Callable[[Results], str]:
    """The median and the 99th percentile, in ms."""

    def cell(results: Results) -> str:
        figures = results.get(scenario, {})
        if "error" in figures:
            return "failed"
        keys = [key for key in figures if key.startswith(name)]
        return " / ".join(_milliseconds(figures[key]) for key in keys) or "–"

    return cell


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f}" if seconds >= 0.1 else f"{seconds * 1e3:.2g}"


def _seconds(results: Results) -> str:
    seconds = results.get("at once", {}).get("seconds")
    return "–" if seconds is None else f"{seconds:.1f}"


def _megabytes(results: Results) -> str:
    size = results["weight"].get("size")
    return "failed" if size is None else f"{size / 1e6:,.0f} MB"


def _versions(results: Results) -> str:
    return ", ".join(f"{name} {version}" for name, version in results["versions"].items())


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
    ("turns given up", _count("dropped", "given up")),
    ("clock ahead: out of order", _count("ahead", "out of order", "messages")),
    ("clock ahead: lost", _count("ahead", "lost")),
    ("clocks stopped: out of order", _count("stopped", "out of order", "messages")),
    ("clocks stopped: lost", _count("stopped", "lost")),
    ("rows with an erased name", _count("erased", "left", "before")),
    ("in the files", _count("erased", "in the files")),
    ("others' messages lost", _count("erased", "others lost")),
]
_CALLS: list[Column] = [
    (name, _times("calls", name)) for name in ("add one", "add a turn", "newest 20 of 200")
]
_READS: list[Column] = [
    ("newest 20 of a long session", _times("long", "newest")),
    ("a page of sessions", _times("lists", "a page")),
    ("bytes of a turn", _count("long", "bytes")),
]
_WEIGHT: list[Column] = [
    ("versions", _versions),
    ("import", _times("weight", "import")),
    ("dependencies", _count("weight", "dependencies")),
    ("on disk", _megabytes),
]
