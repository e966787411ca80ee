"""Five clients make random concurrent calls, whose results must be linearizable."""

from __future__ import annotations

import asyncio
import errno
import multiprocessing
import os
import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jazzmine.sync.message_store import MessageStore
from tests.behaviour.apis import APIS, ASYNC, SYNC, Api, as_async
from tests.behaviour.samples import conversation, ids, message
from tests.faults.histories import KEY, MEMORY_CALLS, MESSAGE_CALLS, Recorder
from tests.faults.history_checks import CALLS, Client, check
from tests.faults.log_histories import LogRecorder
from tests.faults.networks import NETWORKS, Config, config_of, is_memory
from tests.faults.sizes import report, size
from tests.servers import postgres
from tests.servers.proxy import Proxy

# If PyMongo is stopped while it connects, the socket may be left to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)


CLIENTS = 5
ROUNDS = size(1, 20)
MESSAGE_STORES = ["json", "sqlite", "postgres", "mongodb"]
# A store, and whether the calls are those of a conversation as a log.
CASES = [
    *((name, False) for name in MESSAGE_STORES),
    *((name, False) for name in ("memory", "redis", "sqlite_memory", "postgres_memory")),
    *((name, True) for name in MESSAGE_STORES),
]
each_case = pytest.mark.parametrize(("name", "is_log"), CASES)
# The probability that an async call is cancelled, without other faults and with them. The outcome
# of a cancelled call is unknown, and with many such calls the search for an order takes too long.
CANCELLED = (0.05, 0.01)


@contextmanager
def at(name: str, folder: Path) -> Iterator[tuple[Config, Proxy | None]]:
    """The configuration of an empty store, and the proxy in front of it."""
    if name in NETWORKS:
        with NETWORKS[name]() as network:
            yield {**network.through, "timeout": 10.0}, network.proxy
    else:
        with config_of(name, folder) as config:
            yield {**config, "fsync": True} if name == "json" else config, None


def kind(name: str, api: Api = SYNC) -> Any:
    return api.WorkingMemoryStore if is_memory(name) else api.MessageStore


async def prepare(name: str, store: Any) -> None:
    """Store the conversation, without messages."""
    if is_memory(name):
        await store.delete(KEY)
        await store.get_or_create(KEY, "u1", "a1")
    else:
        await store.delete_conversation(KEY)
        await store.store_conversation(conversation(KEY))


async def prepare_place(name: str, config: Config) -> None:
    async with await kind(name).initialize(config) as store:
        await prepare(name, store)


def clients(name: str, seed: int, is_log: bool = False) -> list[Client]:
    seeds = range(seed * 100 + 1, seed * 100 + 1 + CLIENTS)
    if is_log:
        return [LogRecorder(each) for each in seeds]
    return [Recorder(MEMORY_CALLS if is_memory(name) else MESSAGE_CALLS, each) for each in seeds]


@contextmanager
def faults(name: str, proxy: Proxy | None) -> Iterator[list[float]]:
    """Make the disk or the network fail every few calls; the times of lost replies are noted."""
    lost: list[float] = []
    if name == "json":
        with a_failing_disk():
            yield lost
    elif proxy is not None:
        with a_failing_network(name, proxy, lost):
            yield lost
    else:
        yield lost


@contextmanager
def a_failing_disk(seed: int = 17) -> Iterator[None]:
    """Make every tenth flush of a file fail, after a moment, as that of a disk does.

    One of a folder leaves the outcome unknown.
    """
    chance, fsync = random.Random(seed), os.fsync

    def fail_at_times(fd: int) -> None:
        if not os.path.isdir(f"/proc/self/fd/{fd}") and chance.random() < 0.1:
            time.sleep(0.01)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fail_at_times)
        yield


@contextmanager
def a_failing_network(name: str, proxy: Proxy, lost: list[float]) -> Iterator[None]:
    """Lose a reply or cut all connections, repeatedly."""
    over = threading.Event()
    chance = random.Random(17)
    # PyMongo waits half a second before it looks for a server again.
    longest = 1.0 if name == "mongodb" else 0.1

    def disturb() -> None:
        while not over.wait(chance.uniform(longest / 5, longest)):
            if chance.random() < 0.3:
                lost.append(time.monotonic())
                proxy.cut()
            else:
                proxy.lose_reply(chance.randrange(1, 8))

    proxy.on_loss = lambda: lost.append(time.monotonic())
    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        proxy.lose_reply(0)


async def call_many(
    recorder: Client, store: Any, cancelled: float = 0.0, latest: float = 0.003
) -> None:
    for _ in range(CALLS):
        await recorder.call(store, cancelled, latest=latest)


async def call_at_once(
    api: Api, recorders: Sequence[Client], store: Any, *cancellation: float
) -> None:
    """Make the calls of each client in its own thread, or task."""
    await api.gather(*(partial(call_many, one, store, *cancellation) for one in recorders))


def report_total(name: str, is_log: bool, of_what: str, total: int) -> None:
    what = "log histories" if is_log else "histories"
    report(f"{what}, {name}, {CLIENTS} {of_what}: {total} calls in {ROUNDS}: linearizable")


@pytest.mark.every_combination
@pytest.mark.parametrize("api", APIS, ids=str)
@each_case
async def test_calls_at_once_see_one_order(
    name: str, is_log: bool, api: Api, tmp_path: Path
) -> None:
    total = 0
    for seed in range(ROUNDS):
        with at(name, tmp_path) as (config, proxy):
            async with await kind(name, api).initialize(config) as store:
                await prepare(name, store)
                recorders = clients(name, seed, is_log)
                cancelled = CANCELLED[proxy is not None] if api is ASYNC else 0.0
                with faults(name, proxy) as lost:
                    await call_at_once(api, recorders, store, cancelled)
                total += check(name, recorders, lost=lost)
    report_total(f"{name}, {api}", is_log, "clients", total)


async def test_tasks_that_are_cancelled_during_slow_commits_see_one_order_of_all_calls() -> None:
    commit = 0.02
    slow = f"-c commit_delay={round(commit * 1e6)} -c commit_siblings=0"
    total = 0
    with postgres.Server("18", fsync=True) as server:
        dsn = postgres.changed(server.dsn, options=slow)
        config = {"storage": "postgres", "dsn": dsn, "pool_max": 4}
        for seed in range(ROUNDS):
            async with await ASYNC.MessageStore.initialize(config) as store:
                await prepare("postgres", store)
                recorders = clients("postgres", seed, is_log=True)
                await call_at_once(ASYNC, recorders, store, 0.3, 3 * commit)
                total += check("postgres", recorders)
    report_total("slow commits", True, "tasks", total)


def in_a_process(name: str, config: Config, recorder: Client, opened: Any, results: Any) -> None:
    asyncio.run(call_in_this_process(name, config, recorder, opened))
    results.put(recorder.history)


async def call_in_this_process(name: str, config: Config, recorder: Client, opened: Any) -> None:
    """Make the calls; on a JSON file, where nearly all would wait for its lock, with pauses."""
    chance = random.Random(recorder.seed)
    is_json = name == "json"
    async with await kind(name).initialize(config) as store:
        opened.wait(240)
        with a_failing_disk(recorder.seed) if is_json else nullcontext():
            for _ in range(CALLS):
                await recorder.call(store)
                time.sleep(chance.uniform(0, 0.01) if is_json else 0)


@pytest.mark.parametrize(("name", "is_log"), [case for case in CASES if case[0] != "memory"])
def test_processes_see_one_order_of_all_calls(name: str, is_log: bool, tmp_path: Path) -> None:
    total = 0
    for seed in range(ROUNDS):
        with at(name, tmp_path) as (config, proxy):
            asyncio.run(prepare_place(name, config))
            recorders = clients(name, seed, is_log)
            lost = call_in_processes(name, config, proxy, recorders)
            total += check(name, recorders, one_store=False, lost=lost)
    report_total(name, is_log, "processes", total)


def call_in_processes(
    name: str,
    config: Config,
    proxy: Proxy | None,
    recorders: Sequence[Client],
) -> list[float]:
    """Make the calls of each client in its own process; return when replies were lost."""
    fork = multiprocessing.get_context("fork")
    opened, results = fork.Barrier(CLIENTS + 1), fork.Queue()
    processes = [
        fork.Process(target=in_a_process, args=(name, config, recorder, opened, results))
        for recorder in recorders
    ]
    for process in processes:
        process.start()
    opened.wait(240)
    with faults(name, proxy) as lost:
        for recorder in recorders:
            recorder.history = results.get(timeout=240)
        for process in processes:
            process.join()
    return lost


Stored = tuple[str, float, float]  # an id, and when its call began and ended


def store_many(store: MessageStore, client: int) -> list[Stored]:
    """Store new messages of one moment, one after the other."""
    stored = []
    for number in range(CALLS):
        new, began = message(f"new-{client}-{number}"), time.monotonic()
        with suppress(OSError):  # the disk failed, or the outcome is unknown
            store.store_message(new)
            stored.append((new.id, began, time.monotonic()))
    return stored


@pytest.mark.parametrize("name", MESSAGE_STORES)
def test_messages_of_one_moment_stand_in_the_order_in_which_they_were_stored(
    name: str, tmp_path: Path
) -> None:
    with at(name, tmp_path) as (config, proxy), MessageStore.initialize(config) as store:
        asyncio.run(prepare(name, as_async(store)))
        with faults(name, proxy), ThreadPoolExecutor(CLIENTS) as threads:
            work = [threads.submit(store_many, store, client) for client in range(CLIENTS)]
        stored = [one for client in work for one in client.result()]
        place = {id: n for n, id in enumerate(ids(store.get_messages_by_conversation_id(KEY)))}

    assert len(stored) > CLIENTS * CALLS / 2
    for id, _, ended in stored:
        later = [other for other, began, _ in stored if began > ended]
        assert all(place[id] < place[other] for other in later), f"{id} stands after a later one"
