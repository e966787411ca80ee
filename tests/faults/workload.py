"""Workers that make random calls to a store, and the check of their results."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from tests.behaviour.apis import ASYNC, Api
from tests.faults.histories import (
    MEMORY_RECORD_CALLS,
    MESSAGE_RECORD_CALLS,
    RECORDS,
    SEVERAL_STEPS,
    Recorder,
    memory_record_model,
    message_record_model,
    record_of,
)
from tests.faults.linearizability import (
    UNKNOWN,
    Operation,
    Outcome,
    TooHardError,
    bounded,
    is_linearizable,
)
from tests.faults.networks import is_memory
from tests.faults.schedules import Fault

WORKERS = 6
TIMEOUT = 1.5
PAUSE = 0.02  # between two calls of a worker, at most
CANCELLED = 0.03
WEIGHTS = {"read": 3, "delete": 2}
WORKS_AGAIN = 10.0


@dataclass
class Run:
    """The calls of the workers of one run, and the faults of the network.

    Args:
        name: the name of the back end.
        workers: the recorders that made the calls.
        faults: the faults of the network.
    """

    name: str
    workers: list[Recorder]
    faults: list[Fault] = field(default_factory=list)
    too_hard: list[str] = field(default_factory=list)

    @property
    def history(self) -> list[Operation]:
        """The calls of all workers."""
        return [call for worker in self.workers for call in worker.history]

    @property
    def model(self) -> Callable[[Any, Operation], Outcome]:
        """Apply a call to a record."""
        return memory_record_model if is_memory(self.name) else message_record_model

    def check(self) -> None:
        """Fail unless, for each record, the results of its calls are possible for some order."""
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
        """The longest time that a call of one step took."""
        calls = [call for call in self.history if call.name not in SEVERAL_STEPS]
        return max(call.ended - call.began for call in calls)

    def unknown(self) -> int:
        """The number of calls with an unknown outcome."""
        return sum(call.result is UNKNOWN for call in self.history)

    def _is_possible(self, calls: Sequence[Operation]) -> bool:
        made = [*calls, *self._first_attempts(calls)]
        if self.name != "postgres":  # where what was given up may take effect at any later time
            made = [*bounded(made), *self._late_creations(calls)]
        return is_linearizable(made, None, self.model, reads=["read"])

    def _first_attempts(self, calls: Sequence[Operation]) -> list[Operation]:
        """Return the first attempts of the calls that a store may have repeated.

        Those of deletions were made, though their repetitions found nothing left. On PostgreSQL
        a write without a condition is sent again after a lost reply, also over what another call
        has written meanwhile.
        """
        return [
            replace(call, result=UNKNOWN)
            for call in calls
            if (call.name in ("delete", "erase") and call.result in (False, 0))
            or (self.name == "postgres" and call.name != "read" and call.result is not UNKNOWN)
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


def recorders(name: str, seed: int, without: Collection[str] = ()) -> list[Recorder]:
    """Return the workers of a run with a seed; some calls may be left out."""
    calls = MEMORY_RECORD_CALLS if is_memory(name) else MESSAGE_RECORD_CALLS
    calls = {name: call for name, call in calls.items() if name not in without}
    return [Recorder(calls, seed * 100 + number, WEIGHTS) for number in range(1, WORKERS + 1)]


class Worker(Protocol):
    """A client that makes random calls."""

    def pause(self, longest: float) -> float:
        """Return a random number of seconds."""
        ...

    async def call(self, store: Any, cancelled: float, soonest: float, latest: float) -> None:
        """Make one random call, which may be cancelled."""
        ...


async def call_at_once(api: Api, workers: Sequence[Worker], store: Any, seconds: float) -> None:
    """Make the calls of each worker in its own thread, or task, for so many seconds."""
    until = time.monotonic() + seconds
    cancelled = CANCELLED if api is ASYNC else 0.0

    async def work(worker: Worker) -> None:
        while time.monotonic() < until:
            await worker.call(store, cancelled, 0.0, TIMEOUT / 3)
            await api.pause(worker.pause(PAUSE))

    await api.gather(*(partial(work, worker) for worker in workers))


async def read_all(recorder: Recorder, store: Any) -> None:
    """Wait until each record can be read, and read it."""
    until = time.monotonic() + WORKS_AGAIN
    for number in range(len(RECORDS)):
        while await recorder.make(store, "read", number) is UNKNOWN:
            assert time.monotonic() < until, "the store does not work again"
