"""Five clients call at random and at once: there is an order of the calls that explains it."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jazzmine.core import message_store as awaited_messages
from jazzmine.core import working_memory as awaited_memory
from jazzmine.sync.message_store import Message, MessageStore
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.behaviour.samples import conversation
from tests.faults.histories import (
    KEY,
    MEMORY_CALLS,
    MESSAGE_CALLS,
    Recorder,
    memory_model,
    message_model,
)
from tests.faults.linearizability import AGAIN, ANY, UNKNOWN, Operation, is_linearizable
from tests.faults.networks import NETWORKS
from tests.faults.sizes import SOAK, size, tell
from tests.faults.test_threads_and_forks import Unlocked
from tests.servers.proxy import Proxy

CLIENTS = 5
CALLS = size(25, 50)
ROUNDS = size(1, 20)
Config = dict[str, object]


@contextmanager
def at(name: str, folder: Path) -> Iterator[tuple[Config, Proxy | None]]:
    if name == "json":
        yield {"path": str(folder / "messages.json"), "fsync": False}, None
    elif name == "memory":
        yield {"storage": "memory"}, None
    else:
        with NETWORKS[name]() as network:
            yield {**network.through, "timeout": 5.0}, network.proxy


def is_memory(name: str) -> bool:
    return name in ("memory", "redis")


def prepare(name: str, store: Any) -> None:
    """Have the conversation stored, without messages."""
    if is_memory(name):
        store.get_or_create(KEY, "u1", "a1")
    else:
        store.delete_conversation(KEY)
        store.store_conversation(conversation(KEY))


def clients(name: str, seed: int) -> list[Recorder]:
    calls = MEMORY_CALLS if is_memory(name) else MESSAGE_CALLS
    return [Recorder(calls, seed * 100 + number) for number in range(1, CLIENTS + 1)]


def check(name: str, recorders: list[Recorder], moments: Sequence[float] = ()) -> list[Operation]:
    """Fail unless some order of all calls explains what each of them returned."""
    history = [operation for recorder in recorders for operation in recorder.history]
    if is_memory(name):
        possible = is_linearizable(history, (1, None), memory_model)
    else:
        lenient = repeated(history, moments) if name in REPEATING else history
        possible = is_linearizable(lenient, (), message_model)
    assert possible, "no order of the calls explains what they returned"
    return history


def repeated(history: list[Operation], moments: Sequence[float]) -> list[Operation]:
    """The same, where a write may have been made twice, and a deletion then found nothing."""
    found = []
    for operation in history:
        disturbed = any(operation.began <= moment <= operation.ended for moment in moments)
        disturbed &= operation.name not in ("get", "list") and operation.result is not UNKNOWN
        if disturbed and operation.result is False:
            operation = replace(operation, result=ANY)
        found.append(operation)
        if disturbed:
            found.append(replace(operation, result=AGAIN))
    return found


@contextmanager
def faults(name: str, proxy: Proxy | None) -> Iterator[list[float]]:
    """Lose a reply, or cut all connections, every few milliseconds; yield the moments."""
    moments: list[float] = []
    if name == "mongodb" and not SOAK:
        proxy = None
    if proxy is not None:
        proxy.on_loss = lambda: moments.append(time.monotonic())
    over = threading.Event()
    chance = random.Random(17)
    # PyMongo asks no sooner than after half a second whether a server is back.
    longest = 2.0 if name == "mongodb" else 0.1

    def disturb() -> None:
        while proxy is not None and not over.wait(chance.uniform(longest / 5, longest)):
            if chance.random() < 0.3:
                moments.append(time.monotonic())
                proxy.cut()
            else:
                proxy.lose_reply(chance.randrange(1, 8))

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield moments
    finally:
        over.set()
        thread.join()
        if proxy is not None:
            proxy.lose_reply(0)


# A statement whose reply was lost is sent again: it may then take effect a second time, later.
REPEATING = ("postgres", "mongodb")
STORES = ["json", "postgres", "mongodb", "memory", "redis"]


@pytest.mark.parametrize("name", STORES)
def test_threads_see_one_order_of_all_calls(name: str, tmp_path: Path) -> None:
    opened: Any = WorkingMemoryStore if is_memory(name) else MessageStore
    total = 0
    for seed in range(ROUNDS):
        with at(name, tmp_path) as (config, proxy), opened.initialize(config) as store:
            prepare(name, store)
            recorders = clients(name, seed)
            with faults(name, proxy) as moments:
                call_at_once(recorders, store)
            total += len(check(name, recorders, moments))
    assert total == ROUNDS * CLIENTS * CALLS
    tell(f"histories, {name}, threads: {total} calls of {CLIENTS} clients, linearizable")


def call_at_once(recorders: list[Recorder], store: Any) -> None:
    with ThreadPoolExecutor(CLIENTS) as threads:
        work = [threads.submit(call_many, recorder, store) for recorder in recorders]
    for one in work:
        one.result()


def call_many(recorder: Recorder, store: Any) -> None:
    for _ in range(CALLS):
        recorder.call(store)


@pytest.mark.parametrize("name", STORES)
async def test_tasks_see_one_order_of_all_calls(name: str, tmp_path: Path) -> None:
    opened: Any = awaited_memory.WorkingMemoryStore
    if not is_memory(name):
        opened = awaited_messages.MessageStore
    total = 0
    for seed in range(ROUNDS):
        with at(name, tmp_path) as (config, proxy):
            async with await opened.initialize(config) as store:
                if is_memory(name):
                    await store.get_or_create(KEY, "u1", "a1")
                else:
                    await store.delete_conversation(KEY)
                    await store.store_conversation(conversation(KEY))
                recorders = clients(name, seed)

                async def call(recorder: Recorder, store: Any = store) -> None:
                    for _ in range(CALLS):
                        await recorder.call_awaited(store)

                with faults(name, proxy) as moments:
                    await asyncio.gather(*(call(recorder) for recorder in recorders))
                total += len(check(name, recorders, moments))
    assert total == ROUNDS * CLIENTS * CALLS
    tell(f"histories, {name}, tasks: {total} calls of {CLIENTS} clients, linearizable")


def in_a_process(name: str, config: Config, recorder: Recorder, results: Any) -> None:
    opened: Any = WorkingMemoryStore if is_memory(name) else MessageStore
    with opened.initialize(config) as store:
        call_many(recorder, store)
    results.put(recorder.history)


@pytest.mark.parametrize("name", ["json", "postgres", "redis"])
def test_processes_see_one_order_of_all_calls(name: str, tmp_path: Path) -> None:
    opened: Any = WorkingMemoryStore if is_memory(name) else MessageStore
    fork = multiprocessing.get_context("fork")
    with at(name, tmp_path) as (config, _):
        with opened.initialize(config) as store:
            prepare(name, store)
        recorders = clients(name, 1)
        results = fork.Queue()
        processes = [
            fork.Process(target=in_a_process, args=(name, config, recorder, results))
            for recorder in recorders
        ]
        for process in processes:
            process.start()
        for recorder in recorders:
            recorder.history = results.get(timeout=60)
        for process in processes:
            process.join()
        history = check(name, recorders)
    assert len(history) == CLIENTS * CALLS
    tell(f"histories, {name}, processes: {len(history)} calls, linearizable")


def test_a_store_that_reads_what_is_no_longer_there_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old: dict[str, Any] = {}

    with MessageStore.initialize({"path": str(tmp_path / "m.json"), "fsync": False}) as store:
        read = store.get_message_by_id

        def read_an_older_one(message_id: str) -> Message | None:
            new = read(message_id)
            return old.setdefault(message_id, new) if random.random() < 0.5 else new

        monkeypatch.setattr(store, "get_message_by_id", read_an_older_one)
        prepare("json", store)
        recorders = clients("json", 1)
        call_at_once(recorders, store)
        with pytest.raises(AssertionError, match="no order of the calls"):
            check("json", recorders)


def test_a_working_memory_without_locks_is_found_out() -> None:
    with Unlocked() as store:
        prepare("memory", store)
        recorders = clients("memory", 1)
        call_at_once(recorders, store)
        with pytest.raises(AssertionError, match="no order of the calls"):
            check("memory", recorders)
