"""What does an update of working memory cost on each back end, at turn 1,000, and among processes?

A round is one turn with three updates; the figure is the time of one. The same is measured in a
conversation of 1,000 turns. Then eight processes update one conversation without a pause, to see
whether one is lost, and how long the longest takes.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.frame.lab import Lab, race
from benchmarks.frame.results import Pairs, Row
from jazzmine.core.working_memory import TurnCache, WorkingMemoryStore
from jazzmine.sync.working_memory import WorkingMemoryStore as SyncWorkingMemoryStore
from tests.servers import postgres
from tests.servers.redis import Server

PROCESSES, EACH, ROUNDS = 8, 200, 15
CID = "c"


@contextmanager
def updates(config: Any, turns: int = 0) -> Iterator[Callable[[], float]]:
    """Make turns of one conversation, each by a call; `turns` of them are made already."""
    loop = asyncio.new_event_loop()
    store = loop.run_until_complete(WorkingMemoryStore.initialize(config))
    number = 0

    async def turn() -> float:
        nonlocal number
        number += 1
        cache = TurnCache(number, "The customer asked about a parcel. " * 40)
        started = perf_counter()
        await store.begin_turn(CID, cache)
        await store.set_data(CID, order=number)
        await store.end_turn(CID, "Your refund is on its way. " * 8, "refund_done", "A refund")
        return (perf_counter() - started) / 3

    loop.run_until_complete(store.get_or_create(CID, "user", "agent"))
    for _ in range(turns):
        loop.run_until_complete(turn())
    yield lambda: loop.run_until_complete(turn())
    loop.run_until_complete(store.close())
    loop.close()


@contextmanager
def places(storage: str, folder: Path) -> Iterator[Any]:
    """The configuration of an empty place of a back end."""
    if storage == "redis":
        with Server() as server:
            yield server.url
    elif storage == "postgres":
        with postgres.empty_schema() as schema:
            yield {"storage": storage, "dsn": postgres.dsn(), "schema": schema}
    elif storage == "sqlite":
        yield {"storage": storage, "path": str(folder / "agent.db")}
    else:
        yield {"storage": storage}


def answer(lab: Lab) -> Iterator[Row]:
    for storage in ("memory", "sqlite", "redis", "postgres"):
        with ExitStack() as stack:

            def racer(storage: str, turns: int, stack: ExitStack = stack) -> Callable[[], float]:
                config = stack.enter_context(places(storage, lab.folder()))
                return stack.enter_context(updates(config, turns))

            found = race(racer(storage, 0), racer("memory", 0), ROUNDS)
            yield Row(f"{storage}: an update", found, beside="in memory")
            found = race(racer(storage, 1_000), racer(storage, 100), ROUNDS)
            yield Row("  at turn 1,000", found, beside="at turn 100")
        if storage != "memory":
            with places(storage, lab.folder()) as config:
                yield from _at_once(config)


def _at_once(config: Any) -> Iterator[Row]:
    spawn = multiprocessing.get_context("spawn")
    begin = spawn.Barrier(PROCESSES)
    with SyncWorkingMemoryStore.initialize(config) as store:
        before = store.get_or_create(CID, "user", "agent").revision
        with spawn.Pool(PROCESSES, _prepare, (config, begin)) as pool:
            times = [took for each in pool.map(_update, range(PROCESSES), 1) for took in each]
        kept = store.get_or_create(CID, "user", "agent").revision - before
    ratio = max(times) / statistics.median(times)
    lost = PROCESSES * EACH - kept
    yield Row("  8 processes: lost", Pairs([lost], []), unit="")
    yield Row("  the longest / the median", Pairs([ratio], []), unit="")


_prepared: list[Any] = []


def _prepare(config: Any, begin: Any) -> None:
    _prepared[:] = [SyncWorkingMemoryStore.initialize(config), begin]


def _update(_: int) -> list[float]:
    store, begin = _prepared
    begin.wait()
    times = []
    for _ in range(EACH):
        started = perf_counter()
        store.end_turn(CID, "Your refund is on its way.", "refund_done")
        times.append(perf_counter() - started)
    return times
