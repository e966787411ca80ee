"""Does searching traces in PostgreSQL cost more when there are more of them?

A page has ten traces, of an agent with a seventh of all, and a tool that one trace of eleven has.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.postgres import database
from benchmarks.frame.postgres_traces import FillTraces, Traces
from benchmarks.frame.results import Row, within

CALLS = (
    "page of an agent",
    "page of an agent, 30,000 later",
    "find, agent",
    "find, tool",
    "find, agent and tool",
    "find, agent and a rare tool",
)


def answer(lab: Lab) -> Iterator[Row]:
    if lab.self_check:
        return
    with database(fsync=False) as few, database(fsync=False) as many:
        for dsn, count in ((few, 1_000), (many, 600_000)):
            with lab.worker(Side(FillTraces, {"dsn": dsn, "count": count})) as worker:
                worker.call("measure")
        for call in CALLS:
            ours, other = ({"dsn": dsn, "call": call} for dsn in (many, few))
            found = lab.race(Side(Traces, ours), Side(Traces, other), rounds=15)
            # Among 1,000 traces the later page is empty, so it is not measured.
            bar = None if "later" in call else within(5)
            yield Row(f"{call}, of 600,000", found["seconds"], bar, beside="of 1,000")
