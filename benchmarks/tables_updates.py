"""What does an update of working memory cost in PostgreSQL and in an SQLite database?

An update in PostgreSQL stands beside one bare statement on the same server, which writes as much.
Both flush what they write. One in an SQLite database stands beside one in Redis, which flushes
nothing: `synchronous=normal` promises what Redis does, and is to take 60 us at most.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.results import Pairs, Row, at_most, within
from benchmarks.frame.scenario import Figures, Scenario
from benchmarks.frame.turns import turn_cache
from tests.servers.postgres import Server
from tests.servers.redis import Server as Redis

TIMES = 100


def _median_of(call: Callable[[int], Any]) -> Figures:
    times = []
    for number in range(TIMES):
        started = perf_counter()
        call(number)
        times.append(perf_counter() - started)
    return {"seconds": statistics.median(times)}


class Update(Scenario):
    """The update of a store, through the sync API."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self._url = url

    def prepare(self) -> None:
        from jazzmine.sync.working_memory import WorkingMemoryStore

        self.store = WorkingMemoryStore.initialize(self._url)
        self.store.get_or_create("c", "user", "agent")
        self.store.begin_turn("c", turn_cache(1))

    def measure(self) -> Figures:
        return _median_of(lambda number: self.store.end_turn("c", f"reply {number}", "greet"))

    def finish(self) -> None:
        self.store.close()


class BareStatement(Update):
    """An update, and one statement that writes the same state, in turn."""

    def prepare(self) -> None:
        import psycopg

        from jazzmine.records.memory_json import to_json

        super().prepare()
        self.connection = psycopg.connect(self._url, autocommit=True, prepare_threshold=0)
        self.connection.execute(
            "CREATE TABLE bare (id text PRIMARY KEY, data bytea) WITH (fillfactor = 50)"
        )
        memory = self.store.get("c")
        assert memory is not None
        self.memory = memory
        self.connection.execute("INSERT INTO bare VALUES ('c', %b)", [to_json(memory)])

    def measure_both(self) -> list[tuple[float, float]]:
        pairs = []
        for number in range(10 * TIMES):
            started = perf_counter()
            self.store.end_turn("c", f"reply {number}", "greet")
            between = perf_counter()
            self._update_bare(number)
            pairs.append((between - started, perf_counter() - between))
        return pairs

    def _update_bare(self, number: int) -> None:
        from jazzmine.records.memory_copy import deep_copy, partial_copy
        from jazzmine.records.memory_json import to_json

        self.memory = partial_copy(self.memory)
        self.memory.end_turn(f"reply {number}", "greet")
        data = to_json(self.memory)
        self.connection.execute("UPDATE bare SET data = %b WHERE id = %s", [data, "c"])
        deep_copy(self.memory)

    def finish(self) -> None:
        super().finish()
        self.connection.close()


def answer(lab: Lab) -> Iterator[Row]:
    if lab.self_check:
        return
    with Server("18", fsync=True) as server:
        with lab.worker(Side(BareStatement, {"url": server.dsn})) as worker:
            ours, bare = map(list, zip(*worker.call("measure_both"), strict=True))
        yield Row("an update, PostgreSQL", Pairs(ours, bare), within(1.3), "one bare statement")
    with Redis() as redis:
        for synchronous, bar in (("full", None), ("normal", at_most(60e-6))):
            url = f"sqlite:{lab.folder() / 'agent.db'}?synchronous={synchronous}"
            sides = Side(Update, {"url": url}), Side(Update, {"url": redis.url})
            found = lab.race(*sides, rounds=15)
            yield Row(f"an update, SQLite, {synchronous}", found["seconds"], bar, "Redis")
