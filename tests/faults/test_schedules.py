"""Six workers write, read and delete four records while the network fails at random.

The history of each record is checked separately, because every call concerns one record. A call
of unknown outcome may take effect until a later call on its record has returned, and no longer.
JAZZMINE_SEED repeats the schedule of a run that failed.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from jazzmine.core import message_store as async_messages
from jazzmine.core import working_memory as async_memory
from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.behaviour.samples import conversation
from tests.faults.networks import NETWORKS, Network, is_memory
from tests.faults.schedules import Schedule, seed
from tests.faults.sizes import TOLERANCE, report, size
from tests.faults.workload import (
    TIMEOUT,
    WORKERS,
    Run,
    call_at_once,
    call_at_once_async,
    read_all,
    read_all_async,
    recorders,
)

# If PyMongo is stopped while it connects, the socket may be left to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)

SECONDS = size(3, 20)
RUNS = size(1, 4)
SETTLED = 0.5  # after which delivered data has taken effect


def config(name: str, network: Network, schedule: Schedule) -> dict[str, object]:
    config = {**network.through, "timeout": TIMEOUT}
    if name.startswith("postgres"):
        config["pool_max"] = schedule.chance.choice([2, WORKERS])
    return config


def run_threads(name: str, seed: int) -> Run:
    kind: Any = WorkingMemoryStore if is_memory(name) else MessageStore
    with NETWORKS[name]() as network:
        schedule, workers = Schedule(network.proxy, seed), recorders(name, seed)
        with kind.initialize(config(name, network, schedule)) as store:
            if not is_memory(name):
                store.store_conversation(conversation())
            with schedule:
                call_at_once(workers, store, SECONDS)
            time.sleep(SETTLED)
            read_all(workers[0], store)
    return Run(name, workers, schedule.faults)


async def run_tasks(name: str, seed: int) -> Run:
    kind: Any = async_memory.WorkingMemoryStore
    if not is_memory(name):
        kind = async_messages.MessageStore
    with NETWORKS[name]() as network:
        schedule, workers = Schedule(network.proxy, seed), recorders(name, seed)
        async with await kind.initialize(config(name, network, schedule)) as store:
            if not is_memory(name):
                await store.store_conversation(conversation())
            with schedule:
                await call_at_once_async(workers, store, SECONDS)
            await asyncio.sleep(SETTLED)
            await read_all_async(workers[0], store)
    return Run(name, workers, schedule.faults)


def check(run: Run, api: str, seed: int) -> None:
    print(f"JAZZMINE_SEED={seed}: {len(run.history)} calls, {run.unknown()} of unknown outcome,")
    print(f"{len(run.faults)} faults, the slowest call took {run.slowest():.2f} s")
    run.check()
    assert run.slowest() < TIMEOUT + 0.5 + TOLERANCE, "not back at the deadline"
    report(
        f"schedules, {run.name}, {api}, seed {seed}: {len(run.history)} calls, {run.unknown()} of"
        f" unknown outcome, {len(run.faults)} faults: linearizable"
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_threads_see_one_order_however_the_network_fails(name: str) -> None:
    for number in range(RUNS):
        chosen = seed() + number
        check(run_threads(name, chosen), "sync", chosen)


@pytest.mark.parametrize("name", NETWORKS)
async def test_tasks_see_one_order_however_the_network_fails(name: str) -> None:
    for number in range(RUNS):
        chosen = seed() + number
        check(await run_tasks(name, chosen), "async", chosen)
