"""How many messages go into PostgreSQL when many are stored at once?"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.postgres import Concurrent, Threads, database, filled
from benchmarks.frame.results import Row, at_least_as_fast


def answer(lab: Lab) -> Iterator[Row]:
    with database(fsync=True) as dsn:
        filled(lab, dsn)
        options: dict[str, object] = {"dsn": dsn, "workers": 50, "each": 4}
        other = Side(Concurrent, options, predecessor=True)
        found = lab.race(Side(Concurrent, options), other, rounds=15)
        yield Row("50 at once on 10 connections", found["seconds"], at_least_as_fast(1.2))
        if not lab.self_check:
            options = {"dsn": dsn, "workers": 8, "each": 50}
            found = lab.race(Side(Threads, options), Side(Concurrent, options), rounds=15)
            bar = at_least_as_fast(0.9)
            yield Row("8 threads, sync calls", found["seconds"], bar, beside="8 tasks")
