"""Stores are opened before their processes are forked."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jazzmine._compat.concurrency import SyncAffinity as Affinity
from jazzmine.core.message_store import MessageStore as AsyncMessageStore
from jazzmine.errors import StoreUnavailableError, WrongEventLoopError
from jazzmine.sync import Stores, open_stores
from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import WorkingMemory, WorkingMemoryStore
from tests.behaviour.samples import conversation, message
from tests.faults.networks import config_of
from tests.faults.sizes import report, size

WORKERS = 4
CALLS = size(10, 200)

MESSAGE_STORES = ["json", "sqlite", "postgres", "mongodb"]
MEMORIES = ["memory", "redis", "sqlite", "postgres"]


def work_in_a_fork(store: Any, name: str, jobs: Any) -> None:
    for job in iter(jobs.get, None):
        if isinstance(store, MessageStore):
            store.store_message(message(f"{name}-{job}"))
        else:
            store.end_turn("c1", "response", "intent")


def work_in_a_pool(store: Any) -> None:
    """Fail unless forked processes do every task with a store once."""
    fork = multiprocessing.get_context("fork")
    jobs = fork.Queue()
    total = WORKERS * CALLS
    if isinstance(store, MessageStore):
        store.store_conversation(conversation("c1"))
    else:
        store.get_or_create("c1", "u1", "a1")
    processes = [
        fork.Process(target=work_in_a_fork, args=(store, "job", jobs)) for _ in range(WORKERS)
    ]
    for process in processes:
        process.start()
    for job in [*range(total), *[None] * WORKERS]:
        jobs.put(job)
    for process in processes:
        process.join(240)
    assert [process.exitcode for process in processes] == [0] * WORKERS, "a process failed"
    if isinstance(store, MessageStore):
        assert len(list(store.iter_messages("c1"))) == total
    else:
        assert store.end_turn("c1", "response", "intent").revision == total + 2


@pytest.mark.parametrize(
    ("name", "opened"),
    [
        *((name, MessageStore) for name in MESSAGE_STORES),
        *((name, WorkingMemoryStore) for name in MEMORIES if name != "memory"),
    ],
)
def test_a_prefork_pool_works_on_a_store_made_before_the_fork(
    name: str, opened: Any, tmp_path: Path
) -> None:
    with config_of(name, tmp_path) as config, opened.initialize(config) as store:
        work_in_a_pool(store)
    report(
        f"prefork, {opened.__name__}, {name}: {WORKERS} processes, {WORKERS * CALLS} writes:"
        " all there, once"
    )


def add_turns(stores: Stores, failed: Any) -> None:
    try:
        for number in range(CALLS):
            stores.working_memory.update("c1", count_one)
            stores.messages.store_message(message(f"{os.getpid()}-{number}"))
    except BaseException as error:
        failed.put(repr(error))
        raise


def count_one(memory: WorkingMemory) -> None:
    memory.data["count"] = memory.data.get("count", 0) + 1


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_forked_processes_lose_no_update_of_stores_that_share_a_database(
    name: str, tmp_path: Path
) -> None:
    fork = multiprocessing.get_context("fork")
    failed = fork.Queue()
    with config_of(name, tmp_path) as config, open_stores(config) as stores:
        stores.messages.store_conversation(conversation("c1"))
        stores.working_memory.get_or_create("c1", "u1", "a1")
        # This process updates in a thread while it forks, and waits for its turn in the children.
        thread = threading.Thread(target=add_turns, args=(stores, failed))
        thread.start()
        children = [fork.Process(target=add_turns, args=(stores, failed)) for _ in range(WORKERS)]
        for child in children:
            child.start()
        for child in children:
            child.join(240)
        thread.join()

        assert [child.exitcode for child in children] == [0] * WORKERS, failed.get(timeout=1)
        memory = stores.working_memory.get("c1")
        assert memory is not None
        assert memory.data["count"] == (WORKERS + 1) * CALLS
        assert stores.messages.count_messages(["c1"]) == {"c1": (WORKERS + 1) * CALLS}


def say_what_is_refused(
    store: AsyncMessageStore, loops: list[asyncio.AbstractEventLoop], said: Any
) -> None:
    for loop in loops:
        try:
            loop.run_until_complete(store.ping())
        except WrongEventLoopError as error:
            said.put(str(error))
        else:
            said.put("nothing")


def test_an_async_store_says_in_a_fork_that_it_is_another_processes() -> None:
    fork = multiprocessing.get_context("fork")
    with closing(asyncio.new_event_loop()) as loop, closing(asyncio.new_event_loop()) as other:
        store = loop.run_until_complete(AsyncMessageStore.initialize("memory:"))
        said = fork.Queue()
        process = fork.Process(target=say_what_is_refused, args=(store, [loop, other], said))
        process.start()
        texts = [said.get(timeout=240) for _ in range(2)]
        process.join(240)
        loop.run_until_complete(store.close())

    assert all(text.startswith("this store was opened in another process") for text in texts)


def test_a_store_that_uses_its_connections_after_a_fork_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On PostgreSQL: the pools of redis-py and PyMongo notice a fork themselves.
    monkeypatch.setattr(Affinity, "ensure", lambda affinity: None)
    with (
        config_of("postgres", tmp_path) as config,
        MessageStore.initialize({**config, "timeout": 1}) as store,
        # One of the processes fails, or this one when it looks at what they did.
        pytest.raises((AssertionError, StoreUnavailableError)),
    ):
        work_in_a_pool(store)
