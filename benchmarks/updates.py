"""What does an update of working memory cost on each back end, at turn 1,000, and among processes?

A round is one turn with each kind of update; the figure is the mean of its updates. The same is
measured in a conversation of 1,000 turns. Then eight processes update one conversation without a
pause: all updates must be kept, and the longest may take 50 times as long as the median.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.results import Pairs, Row, at_most, exactly, within
from benchmarks.frame.scenario import Figures, Scenario
from jazzmine.core.working_memory import TurnCache, WorkingMemoryStore
from jazzmine.sync.working_memory import WorkingMemoryStore as SyncWorkingMemoryStore
from tests.servers import postgres
from tests.servers.redis import Server

PROCESSES, EACH, ROUNDS = 8, 200, 15
CID = "c"


class Updates(Scenario):
    """Turns of one conversation.

    Args:
        config: the configuration; a `path` in it is a file name in the scenario's folder.
        turns: how many turns the conversation has had.
    """

    def __init__(self, folder: Path, config: Any, turns: int = 0) -> None:
        super().__init__(folder)
        is_file = isinstance(config, dict) and "path" in config
        self.config = {**config, "path": str(folder / config["path"])} if is_file else config
        self._turns = turns

    async def prepare(self) -> None:
        self.store = await WorkingMemoryStore.initialize(self.config)
        await self.store.get_or_create(CID, "user", "agent")
        for _ in range(self._turns):
            await self.measure()

    async def measure(self) -> Figures:
        self._turns += 1
        cache = TurnCache(self._turns, "The customer asked about a parcel. " * 40)
        started = perf_counter()
        await self.store.begin_turn(CID, cache)
        await self.store.set_data(CID, order=self._turns)
        await self.store.end_turn(CID, "Your refund is on its way. " * 8, "refund_done", "A refund")
        return {"seconds": (perf_counter() - started) / 3}

    async def finish(self) -> None:
        await self.store.close()


class Updater(Scenario):
    """One of several processes that update one conversation by sync calls."""

    def __init__(self, folder: Path, config: Any) -> None:
        super().__init__(folder)
        self._config = config

    def prepare(self) -> None:
        self.store = SyncWorkingMemoryStore.initialize(self._config)
        self.store.get_or_create(CID, "user", "agent")

    def update(self) -> list[float]:
        times = []
        for _ in range(EACH):
            started = perf_counter()
            self.store.end_turn(CID, "Your refund is on its way.", "refund_done")
            times.append(perf_counter() - started)
        return times

    def revision(self) -> int:
        memory: Any = self.store.get(CID)
        return int(memory.revision)

    def finish(self) -> None:
        self.store.close()


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
    in_memory = Side(Updates, {"config": {"storage": "memory"}})
    for storage in ("memory", "sqlite", "redis", "postgres"):
        with places(storage, lab.folder()) as config:
            found = lab.race(Side(Updates, {"config": config}), in_memory, rounds=ROUNDS)
        yield Row(f"{storage}: an update", found["seconds"], beside="in memory")
        with places(storage, lab.folder()) as one, places(storage, lab.folder()) as other:
            late = Side(Updates, {"config": one, "turns": 1_000})
            found = lab.race(late, Side(Updates, {"config": other, "turns": 100}), rounds=ROUNDS)
        yield Row("  at turn 1,000", found["seconds"], within(1.2), beside="at turn 100")
        if storage != "memory":
            with places(storage, lab.folder()) as config:
                yield from _at_once(lab, config)


def _at_once(lab: Lab, config: Any) -> Iterator[Row]:
    with ExitStack() as stack:
        side = Side(Updater, {"config": config})
        updaters = [stack.enter_context(lab.worker(side)) for _ in range(PROCESSES)]
        before = updaters[0].call("revision")
        for updater in updaters:
            updater.send("update")
        times = [seconds for updater in updaters for seconds in updater.receive()]
        kept = updaters[0].call("revision") - before
    ratio = max(times) / statistics.median(times)
    yield Row("  8 processes: kept", Pairs([kept], []), exactly(PROCESSES * EACH), unit="")
    yield Row("  the longest / the median", Pairs([ratio], []), at_most(50), unit="")
