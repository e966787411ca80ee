"""Several clients change, list and erase a few items while the network fails at random.

The results are linearizable, each change is made once, and what was given up does not take effect
after a later call on the same items has returned. JAZZMINE_SEED repeats the schedule of a run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jazzmine._sync.clients.sqlite import SQLiteClient
from jazzmine._sync.long_term_memory.sqlite import SQLiteItemBackend
from jazzmine.backends.sqlite.items import ITEM_TABLES
from jazzmine.backends.sqlite.memory_database import MemoryDatabase
from jazzmine.records.item_rows import Cursor, ItemChange, ItemConflict, ItemQuery, ItemRow, Outcome
from jazzmine.records.log import ANY
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from tests.behaviour.apis import APIS, SYNC, Api
from tests.faults.item_histories import (
    EMPTY,
    ITEM_READS,
    Given,
    ItemRecorder,
    Revisions,
    history_of,
    item_model,
)
from tests.faults.linearizability import (
    UNKNOWN,
    Operation,
    TooHardError,
    is_linearizable,
    with_repetitions,
)
from tests.faults.networks import NETWORKS
from tests.faults.schedules import Schedule, seed
from tests.faults.sizes import TOLERANCE, report, size
from tests.faults.test_schedule_mutants import (
    Broken,
    HappensAfterItWasGivenUp,
    HappensAgainAfterItReturned,
)
from tests.faults.workload import TIMEOUT, WORKERS, call_at_once

# If PyMongo is stopped while it connects, the socket may be left to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)

SERVERS = ("postgres", "mongodb")
# SecantusDB may stop for ever where a write meets an open transaction: `scripts/soak` has the rest.
STORES = ["sqlite", *SERVERS[: size(1, 2)]]
SECONDS = size(2, 20)
RUNS = size(1, 4)
SETTLED = 0.5  # after which delivered data has taken effect
WORKS_AGAIN = 10.0
MOST = 100_000
REPEATED = 0.3


def recorders(seed: int) -> list[ItemRecorder]:
    revisions = Revisions()
    return [ItemRecorder(seed * 100 + number, revisions) for number in range(1, WORKERS + 1)]


@contextmanager
def at(name: str, folder: Path, seed: int) -> Iterator[tuple[dict[str, object], Any]]:
    """The configuration of an empty store, and the faults of the network on the way to it."""
    if name == "sqlite":
        yield {"storage": "sqlite", "path": str(folder / f"{seed}.db")}, nullcontext()
        return
    with NETWORKS[name]() as network:
        schedule = Schedule(network.proxy, seed)
        config = {**network.through, "timeout": TIMEOUT}
        if name == "postgres":
            config["pool_max"] = schedule.chance.choice([2, WORKERS])
        yield config, schedule


def parts_of(call: Operation) -> list[Operation]:
    """Return a call with its deletions that found nothing as reads of their own.

    A transaction of MongoDB does not conflict with who puts an item where it found none.
    """
    given, results = call.argument, call.result
    if call.name != "apply" or not isinstance(results, tuple):
        return [call]
    pairs = list(zip(given.changes, results, strict=True))
    made = tuple(change for change, result in pairs if result is not False)
    kept = tuple(result for _, result in pairs if result is not False)
    reads = [
        replace(call, name="get", argument=given._replace(place=change.place), result=None)
        for change, result in pairs
        if result is False
    ]
    return [replace(call, argument=given._replace(changes=made), result=kept), *reads]


def check(name: str, workers: Sequence[ItemRecorder]) -> None:
    """Fail unless some order of all calls explains what each of them returned."""
    # A server may do what was given up until it ends it.
    history: list[Operation] = history_of(workers, one_store=not name.startswith(SERVERS))
    unknown = sum(one.result is UNKNOWN for worker in workers for one in worker.history)
    slowest = max(one.ended - one.began for one in history if one.name != "erase")
    most = size(2_000, 10_000) if name.startswith(SERVERS) else MOST
    if name.startswith("mongodb"):
        history = [part for call in history for part in parts_of(call)]
    if name.startswith("postgres"):
        # A call that took so long may have been repeated.
        lost = [one.began for one in history if one.ended - one.began > REPEATED]
        history = with_repetitions(history, ITEM_READS, lost)
    try:
        possible = is_linearizable(history, EMPTY, item_model, reads=ITEM_READS, most=most)
    except TooHardError:
        report(f"item histories, {name}: {len(history)} calls: too many orders to try")
        return
    assert possible, "no order of the calls explains what they returned"
    assert slowest < TIMEOUT + 0.5 + TOLERANCE, "not back at the deadline"
    report(f"item histories, {name}: {len(history)} calls, {unknown} unknown: linearizable")


@pytest.mark.every_combination
@pytest.mark.parametrize("api", APIS, ids=str)
@pytest.mark.parametrize("name", STORES)
async def test_calls_at_once_see_one_order(name: str, api: Api, tmp_path: Path) -> None:
    for number in range(RUNS):
        chosen = seed() + number
        print(f"JAZZMINE_SEED={chosen}")
        workers = recorders(chosen)
        with at(name, tmp_path, chosen) as (config, faults):
            async with await api.LongTermMemoryStore.initialize(config) as store:
                with faults:
                    await call_at_once(api, workers, store, SECONDS)
                await api.pause(SETTLED)
                until = time.monotonic() + WORKS_AGAIN
                while await workers[0].make(store, "list", Given()) is UNKNOWN:
                    assert time.monotonic() < until, "the store does not work again"
        check(f"{name}, {api}, seed {chosen}", workers)


# Stores that are broken on purpose


class ChangesOneAfterAnother(SQLiteItemBackend):
    """Makes each change in a transaction of its own."""

    def apply(self, changes: Sequence[ItemChange]) -> Sequence[Outcome] | ItemConflict:
        outcomes: list[Outcome] = []
        for index, change in enumerate(changes):
            outcome = super().apply([change])
            if isinstance(outcome, ItemConflict):
                return ItemConflict(index, outcome.revision)
            outcomes += outcome
        return outcomes


class ComparesBeforeItWrites(SQLiteItemBackend):
    """Reads the revisions, and changes the items in a step of its own."""

    def apply(self, changes: Sequence[ItemChange]) -> Sequence[Outcome] | ItemConflict:
        found = {
            bytes(row[0]).decode(): row[8] for row in self.get_items([c.path for c in changes])
        }
        for index, change in enumerate(changes):
            revision = found.get(change.path)
            if change.expected not in (ANY, revision):
                return ItemConflict(index, revision)
        time.sleep(0.001)
        return super().apply(
            [ItemChange(change.path, ANY, change.item, change.vector) for change in changes]
        )


class SendsAChangeAgain(SQLiteItemBackend):
    """Changes once more if the first reply is lost."""

    def apply(self, changes: Sequence[ItemChange]) -> Sequence[Outcome] | ItemConflict:
        super().apply(changes)
        return super().apply(changes)


class ListsInTwoSteps(SQLiteItemBackend):
    """Reads a page by halves."""

    def list_items(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        first = super().list_items(query, 1, after)
        if not first:
            return first
        time.sleep(0.001)
        row = first[0]
        cursor = Cursor(bytes(row[0]).decode(), row[6], row[8])
        return [*first, *super().list_items(query, limit, cursor)]


class ErasesOne(SQLiteItemBackend):
    """Says that all items of a user are gone when one of them is."""

    def erase(self, user_id: str, limit: int) -> int:
        super().erase(user_id, 1)
        return 0


def check_histories_of(kind: type[SQLiteItemBackend], rounds: int = 10) -> None:
    for chosen in range(rounds):
        workers = recorders(chosen)
        backend = kind(SQLiteClient(MemoryDatabase(ITEM_TABLES)))
        with LongTermMemoryStore(backend).open() as store:
            asyncio.run(call_at_once(SYNC, workers, store, 1.0))
        check("memory", workers)


def test_a_sound_store_is_not_blamed() -> None:
    check_histories_of(SQLiteItemBackend, rounds=3)


BLAMED = r"no order of the calls|was stored twice"


@pytest.mark.parametrize(
    "broken",
    [
        ChangesOneAfterAnother,
        ComparesBeforeItWrites,
        SendsAChangeAgain,
        ListsInTwoSteps,
        ErasesOne,
    ],
)
def test_a_store_that_works_in_two_steps_is_found_out(broken: type[SQLiteItemBackend]) -> None:
    with pytest.raises(AssertionError, match=BLAMED):
        check_histories_of(broken)


class ErasesLater(Broken):
    def break_call(self, name: str, call: Callable[[], Any]) -> Any:
        if name != "erase_user":
            return call()
        self.happen_later(call)
        return 0


@pytest.mark.parametrize(
    "late", [HappensAfterItWasGivenUp, HappensAgainAfterItReturned, ErasesLater]
)
def test_a_store_whose_changes_are_late_is_found_out(late: type[Broken]) -> None:
    with pytest.raises(AssertionError, match=BLAMED):
        check_late_histories_of(late)


def check_late_histories_of(late: type[Broken]) -> None:
    for chosen in range(10):
        workers = recorders(chosen)
        with LongTermMemoryStore.initialize("memory:") as store:
            broken = late(store)
            try:
                asyncio.run(call_at_once(SYNC, workers, broken, 1.0))
            finally:
                broken.settle()
        check("memory", workers)
