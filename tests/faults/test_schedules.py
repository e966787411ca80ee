"""Six workers write, read and delete four records while the network fails at random.

The histories of all calls are checked: each record alone, as no call is about two of them. A call
of unknown outcome may take effect until a later call on its record has returned, and no longer.
JAZZMINE_SEED repeats the schedule of a run that failed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from jazzmine.core import message_store as async_messages
from jazzmine.core import working_memory as async_memory
from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.behaviour.samples import conversation
from tests.faults.histories import (
    MEMORY_RECORD_CALLS,
    MESSAGE_RECORD_CALLS,
    RECORDS,
    Recorder,
    memory_record_model,
    message_record_model,
    record_of,
)
from tests.faults.linearizability import (
    ANY,
    UNKNOWN,
    Operation,
    Outcome,
    TooHardError,
    bounded,
    is_linearizable,
)
from tests.faults.networks import NETWORKS, Network
from tests.faults.schedules import Fault, Schedule, seed
from tests.faults.sizes import LENIENCE, size, tell

# PyMongo, stopped while it connects, may leave the socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)

WORKERS = 6
TIMEOUT = 1.5
SECONDS = size(4, 20)
RUNS = size(1, 5)
PAUSE = 0.02  # between two calls of a worker, at most
SETTLED = 0.5  # after which what was delivered has taken effect
CANCELLED = 0.03
WEIGHTS = {"read": 3, "delete": 2}


# A deletion whose reply was lost is sent again. MongoDB recognises it and gives the same answer;
# the server of the tests deletes again, and finds nothing.
DOUBTED = ("mongodb",)


@dataclass
class Run:
    """What happened in one run of a schedule.

    Args:
        doubts: whether a deletion that was sent again may say that there was nothing to delete.
    """

    model: Callable[[Any, Operation], Outcome]
    history: list[Operation]
    faults: list[Fault]
    doubts: bool = False
    too_hard: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Fail unless, for each record, some order of the calls explains all results."""
        for record in RECORDS:
            calls = [call for call in self.history if record_of(call) == record]
            try:
                possible = self._is_possible(calls)
            except TooHardError:
                self.too_hard.append(record)
                continue
            assert possible, f"no order explains the calls on {record}:\n{self._explain(calls)}"
        assert len(self.too_hard) < len(RECORDS), "too many orders to try"

    def slowest(self) -> float:
        """The longest time that a call took."""
        return max(call.ended - call.began for call in self.history)

    def unknown(self) -> int:
        """How many calls ended without their outcome being known."""
        return sum(call.result is UNKNOWN for call in self.history)

    def _is_possible(self, calls: Sequence[Operation]) -> bool:
        calls = [doubted(call) for call in calls] if self.doubts else calls
        return is_linearizable(bounded(calls), None, self.model, reads=["read"])

    def _explain(self, calls: list[Operation]) -> str:
        """The calls and faults up to the first moment at which no order explains the calls."""
        moments = sorted(call.ended for call in calls)
        low, high = 0, len(moments) - 1
        while low < high:
            middle = (low + high) // 2
            if self._is_possible(_until(calls, moments[middle])):
                low = middle + 1
            else:
                high = middle
        calls = _until(calls, moments[low])
        lines = [
            (call.began, f"{call.name} {call.argument} -> {call.result}, until {call.ended:.3f}")
            for call in calls
        ]
        lines += [(fault.moment, f"    {fault.what}") for fault in self.faults]
        last = moments[low]
        lines = sorted(line for line in lines if last - 3 * TIMEOUT < line[0] <= last)
        return "\n".join(f"{moment:.3f} {what}" for moment, what in lines)


def doubted(call: Operation) -> Operation:
    """A deletion sent again finds nothing if it took effect when it was sent first."""
    if call.name == "delete" and call.result is False:
        return replace(call, result=ANY)
    return call


def _until(calls: list[Operation], moment: float) -> list[Operation]:
    """The calls as they were known at a moment."""
    begun = [call for call in calls if call.began <= moment]
    return [
        call if call.ended <= moment else replace(call, ended=float("inf"), result=UNKNOWN)
        for call in begun
    ]


def recorders(name: str, seed: int) -> list[Recorder]:
    calls = MEMORY_RECORD_CALLS if name == "redis" else MESSAGE_RECORD_CALLS
    return [Recorder(calls, seed * 100 + number, WEIGHTS) for number in range(1, WORKERS + 1)]


def model(name: str) -> Callable[[Any, Operation], Outcome]:
    return memory_record_model if name == "redis" else message_record_model


def config(name: str, network: Network, schedule: Schedule) -> dict[str, object]:
    config = {**network.through, "timeout": TIMEOUT}
    if name == "postgres":
        config["pool_max"] = schedule.chance.choice([2, WORKERS])
    return config


def work(recorder: Recorder, store: Any, until: float) -> None:
    while time.monotonic() < until:
        recorder.call(store)
        time.sleep(recorder.pause(PAUSE))


def read_all(recorder: Recorder, store: Any) -> None:
    """Read each record, until it can be."""
    until = time.monotonic() + 10
    for number in range(len(RECORDS)):
        while recorder.make(store, "read", number) is UNKNOWN:
            assert time.monotonic() < until, "the store does not work again"


def run_threads(name: str, seed: int, seconds: float) -> Run:
    kind: Any = WorkingMemoryStore if name == "redis" else MessageStore
    with NETWORKS[name]() as network:
        schedule, workers = Schedule(network.proxy, seed), recorders(name, seed)
        with kind.initialize(config(name, network, schedule)) as store:
            if name != "redis":
                store.store_conversation(conversation())
            with schedule, ThreadPoolExecutor(WORKERS) as threads:
                until = time.monotonic() + seconds
                working = [threads.submit(work, worker, store, until) for worker in workers]
            for one in working:
                one.result()
            time.sleep(SETTLED)
            read_all(workers[0], store)
    return Run(model(name), _together(workers), schedule.faults, name in DOUBTED)


async def work_async(recorder: Recorder, store: Any, until: float) -> None:
    while time.monotonic() < until:
        await recorder.call_awaited(store, CANCELLED, 0.0, TIMEOUT / 3)
        await asyncio.sleep(recorder.pause(PAUSE))


async def read_all_async(recorder: Recorder, store: Any) -> None:
    until = time.monotonic() + 10
    for number in range(len(RECORDS)):
        while await recorder.make_awaited(store, "read", number) is UNKNOWN:
            assert time.monotonic() < until, "the store does not work again"


async def run_tasks(name: str, seed: int, seconds: float) -> Run:
    kind: Any = async_memory.WorkingMemoryStore
    if name != "redis":
        kind = async_messages.MessageStore
    with NETWORKS[name]() as network:
        schedule, workers = Schedule(network.proxy, seed), recorders(name, seed)
        async with await kind.initialize(config(name, network, schedule)) as store:
            if name != "redis":
                await store.store_conversation(conversation())
            with schedule:
                until = time.monotonic() + seconds
                await asyncio.gather(*(work_async(worker, store, until) for worker in workers))
            await asyncio.sleep(SETTLED)
            await read_all_async(workers[0], store)
    return Run(model(name), _together(workers), schedule.faults, name in DOUBTED)


def _together(workers: list[Recorder]) -> list[Operation]:
    return [operation for worker in workers for operation in worker.history]


def finish(run: Run, name: str, api: str, seed: int) -> None:
    print(f"JAZZMINE_SEED={seed}: {len(run.history)} calls, {run.unknown()} of unknown outcome,")
    print(f"{len(run.faults)} faults, the slowest call took {run.slowest():.2f} s")
    run.check()
    assert run.slowest() < TIMEOUT + 0.5 + LENIENCE, "not back at the deadline"
    tell(
        f"schedules, {name}, {api}, seed {seed}: {len(run.history)} calls, {run.unknown()} of"
        f" unknown outcome, {len(run.faults)} faults: linearizable"
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_threads_see_one_order_however_the_network_fails(name: str) -> None:
    for number in range(RUNS):
        chosen = seed() + number
        finish(run_threads(name, chosen, SECONDS), name, "sync", chosen)


@pytest.mark.parametrize("name", NETWORKS)
async def test_tasks_see_one_order_however_the_network_fails(name: str) -> None:
    for number in range(RUNS):
        chosen = seed() + number
        finish(await run_tasks(name, chosen, SECONDS), name, "async", chosen)
