"""Workers that make random calls to a store, and the check of their results."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tests.behaviour.apis import ASYNC, Api
from tests.faults.histories import MemoryRecorder, MessageRecorder
from tests.faults.item_histories import ItemRecorder, Revisions, parts_of
from tests.faults.linearizability import UNKNOWN, Operation, TooHardError, bounded, is_linearizable
from tests.faults.log_histories import LogRecorder
from tests.faults.networks import is_memory
from tests.faults.recorders import RandomCalls
from tests.faults.schedules import Fault

WORKERS = 6
TIMEOUT = 1.5
WORKS_AGAIN = 10.0
SEVERAL_STEPS = ("write in a block", "write what was read", "erase", "erase one")
"""Calls that have a deadline for each of several steps."""

Worker = RandomCalls[Any]


def workers_of(name: str, seed: int) -> list[Worker]:
    """Return the workers for a store, by a name such as "sqlite_memory", and a seed."""
    seeds = range(seed * 100 + 1, seed * 100 + 1 + WORKERS)
    if name.endswith("_items"):
        revisions = Revisions()
        return [ItemRecorder(each, revisions) for each in seeds]
    if name.endswith("_log"):
        return [LogRecorder(each) for each in seeds]
    kind = MemoryRecorder if is_memory(name) else MessageRecorder
    return [kind(each) for each in seeds]


@dataclass
class Run:
    """The calls of the workers of one run, and the faults of the network.

    Args:
        name: the name of the store.
        workers: the recorders that made the calls.
        faults: the faults of the network.
        one_store: whether all made them to one store; then what was given up cannot take effect
            after a later, related call has returned.
    """

    name: str
    workers: Sequence[Worker]
    faults: Sequence[Fault] = ()
    one_store: bool = True
    too_hard: list[str] = field(default_factory=list)

    @property
    def history(self) -> list[Operation]:
        """The calls of all workers."""
        return [call for worker in self.workers for call in worker.history]

    def check(self) -> None:
        """Fail unless, for each record, the results of its calls are possible for some order."""
        record_of = self.workers[0].record_of
        records = sorted(set(map(record_of, self.history)))
        for record in records:
            calls = [call for call in self.history if record_of(call) == record]
            try:
                possible = self._is_possible(calls)
            except TooHardError:
                self.too_hard.append(record)
                continue
            assert possible, f"no order explains the calls on {record}:\n{self._explain(calls)}"
        assert len(self.too_hard) < max(2, len(records)), "too many orders to try"

    def slowest(self) -> float:
        """The longest time that a call of one step took."""
        calls = [call for call in self.history if call.name not in SEVERAL_STEPS]
        return max(call.ended - call.began for call in calls)

    def unknown(self) -> int:
        """The number of calls with an unknown outcome."""
        return sum(call.result is UNKNOWN for call in self.history)

    @property
    def _sends_again(self) -> bool:
        """Whether a write without a condition is sent again after a lost reply.

        It may then be made over what another call has written meanwhile, and what was given up may
        take effect at any later time.
        """
        return self.name.startswith("postgres") and not is_memory(self.name)

    def _is_possible(self, calls: Sequence[Operation]) -> bool:
        worker = self.workers[0]
        if self.name == "mongodb_items":
            calls = [part for call in calls for part in parts_of(call)]
        made = [*calls, *self._first_attempts(calls)]
        if self.one_store and not self._sends_again:
            made = [*bounded(made, worker.is_related), *self._late_creations(calls)]
        return is_linearizable(made, worker.first, worker.model, reads=worker.reads)

    def _first_attempts(self, calls: Sequence[Operation]) -> list[Operation]:
        """Return the first attempts of the calls that a store may have repeated; "pop" is never.

        Those of deletions were made, though their repetitions found nothing left.
        """
        never = (*self.workers[0].reads, "pop")
        return [
            replace(call, result=UNKNOWN)
            for call in calls
            if (call.name in ("delete", "erase") and call.result in (False, 0))
            or (self._sends_again and call.name not in never and call.result is not UNKNOWN)
            if self._met_a_fault(call)
        ]

    def _late_creations(self, calls: Sequence[Operation]) -> list[Operation]:
        """Return the first attempts that may create a state at any later time.

        On a server nothing is left of a deleted state that would tell a creation that the network
        has held from a new one.
        """
        return [
            replace(call, result=UNKNOWN)
            for call in calls
            if is_memory(self.name) and call.name == "create" and self._met_a_fault(call)
        ]

    def _met_a_fault(self, call: Operation) -> bool:
        return any(call.began <= fault.moment <= call.ended for fault in self.faults)

    def _explain(self, calls: list[Operation]) -> str:
        """Return the calls and faults around the first moment at which no order is possible."""
        moments = sorted(call.ended for call in calls)
        low, high = 0, len(moments) - 1
        while low < high:
            middle = (low + high) // 2
            if self._is_possible(_until(calls, moments[middle])):
                low = middle + 1
            else:
                high = middle
        last = moments[low]
        lines = [
            (call.began, f"{call.name} {call.argument} -> {call.result}, until {call.ended:.3f}")
            for call in calls
        ]
        lines += [(fault.moment, f"    {fault.what}") for fault in self.faults]
        lines.append((last, "    up to here no order explains the calls"))
        around = (line for line in lines if last - 3 * TIMEOUT < line[0] < last + TIMEOUT)
        return "\n".join(f"{moment:.3f} {what}" for moment, what in sorted(around))


def _until(calls: list[Operation], moment: float) -> list[Operation]:
    """Return the calls as they were at a moment."""
    begun = [call for call in calls if call.began <= moment]
    return [
        call if call.ended <= moment else replace(call, ended=math.inf, result=UNKNOWN)
        for call in begun
    ]


async def work(
    worker: Worker,
    api: Api,
    store: Any,
    seconds: float,
    calls: int = sys.maxsize,
    pause: float = 0.02,
    **cancelled: float,
) -> None:
    """Make the calls of a worker for so many seconds, or so many calls.

    Args:
        pause: the longest time between two calls.
        cancelled: how calls of the async API are cancelled.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until and calls > 0:
        calls -= 1
        await worker.call(store, **(cancelled if api is ASYNC else {}))
        await api.pause(worker.pause(pause))


async def work_at_once(api: Api, workers: Sequence[Worker], *how: Any, **further: Any) -> None:
    """Make the calls of each worker in its own thread, or task; see `work`."""
    await api.gather(*(partial(work, worker, api, *how, **further) for worker in workers))


async def read_all(worker: Worker, store: Any) -> None:
    """Wait until everything can be read, and read it."""
    until = time.monotonic() + WORKS_AGAIN
    for name, given in worker.reads_of_all():
        while await worker.make(store, name, given) is UNKNOWN:
            assert time.monotonic() < until, "the store does not work again"
