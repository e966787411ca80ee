"""Clients make random calls at once while the network or the disk fails at random.

Some order of all calls explains what each has returned. On a message or a working memory, what was
given up does not take effect after a later call on it has returned. JAZZMINE_SEED repeats the
choices of a run.
"""

from __future__ import annotations

import asyncio
import errno
import multiprocessing
import os
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from jazzmine.sync.message_store import MessageStore
from tests.behaviour.apis import APIS, SYNC, Api, as_async
from tests.behaviour.samples import conversation, ids, message
from tests.faults.log_histories import KEY
from tests.faults.networks import NETWORKS, Config, config_of, is_memory
from tests.faults.schedules import Fault, Schedule, seed
from tests.faults.sizes import TOLERANCE, report, size
from tests.faults.workload import (
    TIMEOUT,
    WORKERS,
    Run,
    Worker,
    read_all,
    work,
    work_at_once,
    workers_of,
)
from tests.servers.proxy import Proxy

# If PyMongo is stopped while it connects, the socket may be left to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)

MESSAGE_STORES = ["json", "sqlite", "postgres", "mongodb"]
LOGS = [f"{name}_log" for name in MESSAGE_STORES]
MEMORIES = ["redis", "sqlite_memory", "postgres_memory"]
# SecantusDB may stop for ever where a write meets an open transaction: `scripts/soak` has the rest.
ITEMS = ["sqlite_items", "postgres_items", "mongodb_items"][: size(2, 3)]
ROUNDS = size(1, 10)
SECONDS = size(2, 20)
CALLS = size(25, 50)  # of a client where nothing fails at a time, and on a log
SETTLED = 0.5  # after which delivered data has taken effect


@contextmanager
def at(name: str, folder: Path) -> Iterator[tuple[Config, Proxy | None]]:
    """The configuration of an empty store, and the proxy in front of it."""
    network = NETWORKS.get(name) or NETWORKS.get(name.partition("_")[0])
    if network is None:
        with config_of(name, folder) as config:
            yield {**config, "fsync": True} if config["storage"] == "json" else config, None
        return
    with network() as opened:
        config = {**opened.through, "timeout": 10.0 if name in LOGS else TIMEOUT}
        if config["storage"] == "postgres":
            config["pool_max"] = random.Random(seed()).choice([2, WORKERS])
        yield config, opened.proxy


def kind(name: str, api: Api = SYNC) -> Any:
    if name.endswith("_items"):
        return api.LongTermMemoryStore
    return api.WorkingMemoryStore if is_memory(name) else api.MessageStore


async def prepare(name: str, store: Any) -> None:
    """Store the conversation, without messages."""
    if kind(name) is SYNC.MessageStore:
        await store.delete_conversation(KEY)
        await store.store_conversation(conversation(KEY))


@contextmanager
def faults(name: str, proxy: Proxy | None, chosen: int) -> Iterator[Sequence[Fault]]:
    """Make the disk or the network fail every few calls."""
    if proxy is not None:
        # PyMongo waits half a second before it looks for a server again.
        pause = 0.4 if name not in LOGS else 1.0 if "mongodb" in name else 0.1
        with Schedule(proxy, chosen, pause=pause, mild=name in LOGS) as schedule:
            yield schedule.faults
    else:
        with a_failing_disk(chosen) if "json" in name else nullcontext():
            yield ()


@contextmanager
def a_failing_disk(chosen: int) -> Iterator[None]:
    """Make every tenth flush of a file fail, after a moment, as that of a disk does.

    One of a folder leaves the outcome unknown.
    """
    chance, fsync = random.Random(chosen), os.fsync

    def fail_at_times(fd: int) -> None:
        if not os.path.isdir(f"/proc/self/fd/{fd}") and chance.random() < 0.1:
            time.sleep(0.01)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fail_at_times)
        yield


def check(run: Run, whose: str) -> None:
    run.check()
    assert run.slowest() < 10.0 + TOLERANCE, "not back at the deadline"
    said = f"{len(run.history)} calls, {run.unknown()} of unknown outcome, {len(run.faults)} faults"
    found = "too many orders to try" if run.too_hard else "linearizable"
    report(f"histories, {run.name}, {whose}: {said}: {found}")


@pytest.mark.every_combination
@pytest.mark.parametrize("api", APIS, ids=str)
@pytest.mark.parametrize("name", [*MESSAGE_STORES, *LOGS, "memory", *MEMORIES, *ITEMS])
async def test_calls_at_once_see_one_order(name: str, api: Api, tmp_path: Path) -> None:
    for number in range(ROUNDS):
        chosen = seed() + number
        print(f"JAZZMINE_SEED={chosen}")
        workers = workers_of(name, chosen)
        with at(name, tmp_path) as (config, proxy):
            # The more calls with unknown outcomes, the longer takes the search for an order.
            how: dict[str, Any] = {"cancelled": 0.03, "latest": TIMEOUT / 3}
            if proxy is None:
                how = {"cancelled": 0.05, "pause": 0.0, "calls": CALLS}
            elif name in LOGS:
                how = {"cancelled": 0.01, "pause": 0.0, "calls": CALLS}
            async with await kind(name, api).initialize(config) as store:
                await prepare(name, store)
                with faults(name, proxy, chosen) as made:
                    await work_at_once(api, workers, store, SECONDS, **how)
                await api.pause(SETTLED if proxy else 0)
                await read_all(workers[0], store)
        check(Run(name, workers, made), f"{api}, seed {chosen}")


def in_a_process(name: str, config: Config, worker: Worker, opened: Any, results: Any) -> None:
    async def make_calls() -> None:
        async with await kind(name).initialize(config) as store:
            opened.wait(240)
            # Without pauses nearly all would wait for the lock of a JSON file.
            pause = 0.01 if "json" in name else 0.0
            with a_failing_disk(worker.seed) if "json" in name else nullcontext():
                await work(worker, SYNC, store, 60.0, CALLS, pause)

    asyncio.run(make_calls())
    results.put(worker.history)


async def prepare_place(name: str, config: Config) -> None:
    async with await kind(name).initialize(config) as store:
        await prepare(name, store)


@pytest.mark.parametrize("name", [*LOGS, *MEMORIES])
def test_processes_see_one_order_of_all_calls(name: str, tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    for number in range(ROUNDS):
        with at(name, tmp_path) as (config, proxy):
            asyncio.run(prepare_place(name, config))
            workers = workers_of(name, number)
            opened, results = fork.Barrier(WORKERS + 1), fork.Queue()
            processes = [
                fork.Process(target=in_a_process, args=(name, config, worker, opened, results))
                for worker in workers
            ]
            for process in processes:
                process.start()
            opened.wait(240)
            with faults(name, proxy, number) as made:
                for worker in workers:
                    worker.history = results.get(timeout=240)
                for process in processes:
                    process.join()
        check(Run(name, workers, made, one_store=False), "processes")


Stored = tuple[str, float, float]  # an id, and when its call began and ended


def store_many(store: MessageStore, client: int) -> list[Stored]:
    """Store new messages of one moment, one after the other."""
    stored = []
    for number in range(CALLS):
        new, began = message(f"new-{client}-{number}"), time.monotonic()
        store.store_message(new)
        stored.append((new.id, began, time.monotonic()))
    return stored


@pytest.mark.parametrize("name", MESSAGE_STORES)
def test_messages_of_one_moment_stand_in_the_order_in_which_they_were_stored(
    name: str, tmp_path: Path
) -> None:
    with config_of(name, tmp_path) as config, MessageStore.initialize(config) as store:
        asyncio.run(prepare(name, as_async(store)))
        with ThreadPoolExecutor(WORKERS) as threads:
            work = [threads.submit(store_many, store, client) for client in range(WORKERS)]
        stored = [one for client in work for one in client.result()]
        place = {id: n for n, id in enumerate(ids(store.get_messages_by_conversation_id(KEY)))}

    for id, _, ended in stored:
        later = [other for other, began, _ in stored if began > ended]
        assert all(place[id] < place[other] for other in later), f"{id} stands after a later one"
