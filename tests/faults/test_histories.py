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
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jazzmine.core import message_store as async_messages
from jazzmine.core import working_memory as async_memory
from jazzmine.sync.message_store import Message, MessageStore
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.behaviour.samples import conversation, ids, message
from tests.faults.histories import (
    KEY,
    MEMORY_CALLS,
    MESSAGE_CALLS,
    READS,
    Recorder,
    is_related,
    memory_model,
    message_model,
    message_set_model,
)
from tests.faults.linearizability import (
    UNKNOWN,
    Operation,
    TooHardError,
    bounded,
    is_linearizable,
    with_repetitions,
)
from tests.faults.log_histories import LogRecorder
from tests.faults.networks import NETWORKS, Config, config_of, is_memory
from tests.faults.sizes import report, size
from tests.faults.unordered import Unordered
from tests.servers.proxy import Proxy

# If PyMongo is stopped while it connects, the socket may be left to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)

CLIENTS = 5
CALLS = size(25, 50)
ROUNDS = size(1, 20)
STORES = [
    *("json", "sqlite", "postgres", "mongodb"),
    *("memory", "redis", "sqlite_memory", "postgres_memory"),
]
# The probability that an async call is cancelled, without other faults and with them. The outcome
# of a cancelled call is unknown, and with many such calls the search for an order takes too long.
CANCELLED = (0.05, 0.01)

# On these servers a new message gets its sequence when its statement begins, not when it takes
# effect. So of two messages with equal times that are stored concurrently, the one that is visible
# first may be the second in order. A message that is stored after another one was acknowledged
# comes after it.
# Stores that repeat a write whose reply was lost, and may be given up with an outcome that is
# decided at any later time.
REPEATING = ("postgres",)
# Of how many saves working memory keeps the marks, by which a repetition finds that it was done.
MARKS = 16
UNORDERED = ("postgres", "mongodb")


@contextmanager
def at(name: str, folder: Path) -> Iterator[tuple[Config, Proxy | None]]:
    """The configuration of an empty store, and the proxy in front of it."""
    if name in NETWORKS:
        with NETWORKS[name]() as network:
            yield {**network.through, "timeout": 10.0}, network.proxy
    else:
        with config_of(name, folder) as config:
            yield {**config, "fsync": True} if name == "json" else config, None


def kind(name: str) -> Any:
    return WorkingMemoryStore if is_memory(name) else MessageStore


def prepare(name: str, store: Any) -> None:
    """Store the conversation, without messages."""
    if is_memory(name):
        store.delete(KEY)
        store.get_or_create(KEY, "u1", "a1")
    else:
        store.delete_conversation(KEY)
        store.store_conversation(conversation(KEY))


def clients(name: str, seed: int) -> list[Recorder]:
    calls = MEMORY_CALLS if is_memory(name) else MESSAGE_CALLS
    return [Recorder(calls, seed * 100 + number) for number in range(1, CLIENTS + 1)]


def check(
    name: str,
    recorders: list[Recorder],
    *,
    one_store: bool = True,
    lost: Sequence[float] = (),
) -> int:
    """Fail unless the results of all calls are possible for some order of them.

    Args:
        lost: when replies were lost.
        one_store: whether all calls used one store; then an abandoned call cannot take effect
            after a later call has returned.

    Returns:
        How many calls there were; 0 if it would take too long to find an order.
    """
    history = [operation for recorder in recorders for operation in recorder.history]
    assert len(history) > CLIENTS * CALLS / 2
    if name in REPEATING:
        history = with_repetitions(history, READS, lost)
    elif is_memory(name) and not one_store:
        history = with_repetitions(history, READS, lost, recognized_among=MARKS)
    elif one_store:
        history = bounded(history) if is_memory(name) else bounded(history, is_related)
    try:
        possible = is_possible(name, history)
    except TooHardError:
        return 0
    assert possible, "no order of the calls explains what they returned"
    return len(history)


def is_possible(name: str, history: list[Operation]) -> bool:
    if is_memory(name):
        return is_linearizable(history, (1, None), memory_model, reads=READS)
    model = message_model
    if name in UNORDERED:
        model = message_set_model
        history = [unordered(operation) for operation in history]
    return is_linearizable(history, (), model, reads=READS)


def unordered(operation: Operation) -> Operation:
    if operation.name == "list" and operation.result is not UNKNOWN:
        operation = replace(operation, result=tuple(sorted(operation.result)))
    return operation


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


def call_many(recorder: Recorder | LogRecorder, store: Any) -> None:
    for _ in range(CALLS):
        recorder.call(store)


def call_at_once(recorders: Sequence[Recorder | LogRecorder], store: Any) -> None:
    with ThreadPoolExecutor(CLIENTS) as threads:
        work = [threads.submit(call_many, recorder, store) for recorder in recorders]
    for one in work:
        one.result()


@pytest.mark.parametrize("name", STORES)
def test_threads_see_one_order_of_all_calls(name: str, tmp_path: Path) -> None:
    total = 0
    for seed in range(ROUNDS):
        with at(name, tmp_path) as (config, proxy), kind(name).initialize(config) as store:
            prepare(name, store)
            recorders = clients(name, seed)
            with faults(name, proxy) as lost:
                call_at_once(recorders, store)
            total += check(name, recorders, lost=lost)
    report(
        f"histories, {name}, {CLIENTS} threads: {total} calls in {ROUNDS} histories: linearizable"
    )


@pytest.mark.parametrize("name", STORES)
async def test_tasks_see_one_order_of_all_calls(name: str, tmp_path: Path) -> None:
    opened: Any = async_memory.WorkingMemoryStore
    if not is_memory(name):
        opened = async_messages.MessageStore
    total = 0
    for seed in range(ROUNDS):
        with at(name, tmp_path) as (config, proxy):
            async with await opened.initialize(config) as store:
                await prepare_async(name, store)
                recorders = clients(name, seed)

                cancelled = CANCELLED[proxy is not None]

                with faults(name, proxy) as lost:
                    calls = (call_async(recorder, store, cancelled) for recorder in recorders)
                    await asyncio.gather(*calls)
                total += check(name, recorders, lost=lost)
    report(f"histories, {name}, {CLIENTS} tasks: {total} calls in {ROUNDS} histories: linearizable")


async def call_async(recorder: Recorder, store: Any, cancelled: float) -> None:
    for _ in range(CALLS):
        await recorder.call_async(store, cancelled)


async def prepare_async(name: str, store: Any) -> None:
    if is_memory(name):
        await store.delete(KEY)
        await store.get_or_create(KEY, "u1", "a1")
    else:
        await store.delete_conversation(KEY)
        await store.store_conversation(conversation(KEY))


def in_a_process(
    name: str, config: Config, recorder: Recorder | LogRecorder, opened: Any, results: Any
) -> None:
    with kind(name).initialize(config) as store:
        opened.wait(240)
        if name == "json":
            with a_failing_disk(recorder.seed):
                call_with_pauses(recorder, store)
        else:
            call_many(recorder, store)
    results.put(recorder.history)


def call_with_pauses(recorder: Recorder | LogRecorder, store: Any) -> None:
    """Make the calls so that some begin while another process writes.

    Without pauses, nearly all clients would wait for the lock at any time.
    """
    pauses = random.Random(recorder.seed)
    for _ in range(CALLS):
        recorder.call(store)
        time.sleep(pauses.uniform(0, 0.01))


@pytest.mark.parametrize("name", [name for name in STORES if name != "memory"])
def test_processes_see_one_order_of_all_calls(name: str, tmp_path: Path) -> None:
    total = check_processes(name, tmp_path, ROUNDS)
    report(
        f"histories, {name}, {CLIENTS} processes: {total} calls in {ROUNDS} histories: linearizable"
    )


def check_processes(name: str, folder: Path, count: int) -> int:
    total = 0
    for seed in range(count):
        with at(name, folder) as (config, proxy):
            with kind(name).initialize(config) as store:
                prepare(name, store)
            recorders = clients(name, seed)
            lost = call_in_processes(name, config, proxy, recorders)
            total += check(name, recorders, one_store=False, lost=lost)
    return total


def call_in_processes(
    name: str,
    config: Config,
    proxy: Proxy | None,
    recorders: Sequence[Recorder | LogRecorder],
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


@pytest.mark.parametrize("name", ["json", "sqlite", *UNORDERED])
def test_messages_of_one_moment_stand_in_the_order_in_which_they_were_stored(
    name: str, tmp_path: Path
) -> None:
    with at(name, tmp_path) as (config, proxy), MessageStore.initialize(config) as store:
        prepare(name, store)
        with faults(name, proxy), ThreadPoolExecutor(CLIENTS) as threads:
            work = [threads.submit(store_many, store, client) for client in range(CLIENTS)]
        stored = [one for client in work for one in client.result()]
        place = {id: n for n, id in enumerate(ids(store.get_messages_by_conversation_id(KEY)))}

    assert len(stored) > CLIENTS * CALLS / 2
    for id, _, ended in stored:
        later = [other for other, began, _ in stored if began > ended]
        assert all(place[id] < place[other] for other in later), f"{id} stands after a later one"


def fail_at_once(name: str, store: Any) -> None:
    """Fail like histories of which one is not linearizable.

    A single one may by chance show nothing, or be too hard to decide.
    """
    with pytest.raises(AssertionError, match="no order of the calls"):
        check_histories(name, store, 10)


def check_histories(name: str, store: Any, count: int) -> None:
    for seed in range(count):
        prepare(name, store)
        recorders = clients(name, seed)
        with faults(name, None):
            call_at_once(recorders, store)
        check(name, recorders)


def test_a_store_that_reads_deleted_data_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old: dict[str, Any] = {}

    with MessageStore.initialize({"path": str(tmp_path / "m.json")}) as store:
        read = store.get_message_by_id

        def read_an_older_one(message_id: str) -> Message | None:
            new = read(message_id)
            return old.setdefault(message_id, new) if random.random() < 0.5 else new

        monkeypatch.setattr(store, "get_message_by_id", read_an_older_one)
        fail_at_once("json", store)


def test_a_disk_that_fails_after_the_write_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, fsync = random.Random(17), os.fsync

    def fail_at_times(fd: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{fd}") and chance.random() < 0.3:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", fail_at_times)
    with MessageStore.initialize({"path": str(tmp_path / "m.json")}) as store:
        fail_at_once("json", store)


def test_a_working_memory_that_saves_over_anything_is_found_out() -> None:
    with Unordered() as store:
        fail_at_once("memory", store)
