"""Do eight processes that update one conversation 200 times each lose an update in tables, and do
they all get their turn?

The same as `redis_processes`, in an SQLite database, in PostgreSQL, which flushes each save, and
behind PgBouncer where that is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.frame.lab import Lab
from benchmarks.frame.results import Row
from benchmarks.redis_processes import rows_of
from tests.servers import pgbouncer
from tests.servers.postgres import Server

EACH = 200


def answer(lab: Lab) -> Iterator[Row]:
    if lab.self_check:
        return
    for synchronous in ("full", "normal"):
        url = f"sqlite:{lab.folder() / 'agent.db'}?synchronous={synchronous}"
        yield from _named(f"SQLite, {synchronous}", rows_of(lab, url, EACH))
    with Server("18", fsync=True) as server:
        yield from _named("PostgreSQL", rows_of(lab, server.dsn, EACH))
        if not pgbouncer.MISSING:
            with pgbouncer.in_front_of(server.dsn) as dsn:
                config = {"storage": "postgres", "dsn": dsn, "prepare": False}
                yield from _named("PgBouncer", rows_of(lab, config, EACH))


def _named(name: str, rows: Iterator[Row]) -> Iterator[Row]:
    for row in rows:
        yield replace(row, label=f"{name}: {row.label}")
