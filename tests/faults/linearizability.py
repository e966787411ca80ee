"""Check whether a history of concurrent calls is linearizable (Wing, Gong, Lowe).

A call takes effect once between its beginning and its end. One whose outcome is unknown may
take effect at any moment after its beginning, or never; or, if that is promised, until a later
call has returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

__all__ = [
    "UNKNOWN",
    "Operation",
    "Outcome",
    "TooHardError",
    "bounded",
    "is_linearizable",
]


class _Special(Enum):
    """A result that says nothing; of an enumeration, as those are the same in every process."""

    UNKNOWN = "unknown"


UNKNOWN = _Special.UNKNOWN
"""The result of a call that raised an error which leaves its outcome open."""


class TooHardError(Exception):
    """There are too many orders to try: whether the history is possible is unknown."""


class Outcome(NamedTuple):
    """What a call returns on a state, and the state after it."""

    result: Any
    state: Hashable


@dataclass(frozen=True)
class Operation:
    """A call: what it was, when it began and ended, and its result.

    Args:
        until: if the result is UNKNOWN, the time after which it takes effect no more.
    """

    name: str
    argument: Any
    began: float
    ended: float
    result: Any
    until: float = math.inf

    @property
    def deadline(self) -> float:
        """The time after which it takes effect no more."""
        return self.until if self.result is UNKNOWN else self.ended


def bounded(
    history: Sequence[Operation],
    is_related: Callable[[Operation, Operation], bool] = lambda one, other: True,
) -> list[Operation]:
    """Let each call of unknown outcome take effect only until a later, related one has returned."""
    known = [operation for operation in history if operation.result is not UNKNOWN]
    found = []
    for operation in history:
        if operation.result is UNKNOWN:
            later = (
                other.ended
                for other in known
                if other.began > operation.ended and is_related(operation, other)
            )
            operation = replace(operation, until=min(later, default=math.inf))
        found.append(operation)
    return found


def is_linearizable(
    history: Sequence[Operation],
    first: Hashable,
    apply: Callable[[Any, Operation], Outcome],
    *,
    reads: Collection[str] = (),
    most: int = 10_000,
) -> bool:
    """Return whether some order of the calls explains all results.

    Args:
        history: the calls.
        first: the state before all of them.
        apply: what a call does on a state; it must leave the state as it is.
        reads: the names of the calls that never change the state.
        most: how many partial orders are tried.

    Raises:
        TooHardError: none of those was an answer, and there are more.
    """
    search = _Search(sorted(history, key=lambda operation: operation.began), apply, reads)
    seen: set[tuple[int, Hashable]] = set()
    stack: list[tuple[int, Hashable]] = [(0, first)]
    while stack:
        done, state = stack.pop()
        done = search.without_expired(search.with_reads(done, state))
        if search.is_complete(done):
            return True
        if (done, state) not in seen:
            seen.add((done, state))
            stack += search.steps(done, state)
        if len(seen) > most:
            raise TooHardError
    return False


class _Search:
    """The calls in the order of their beginnings; sets of them are the bits of a number."""

    def __init__(
        self,
        operations: list[Operation],
        apply: Callable[[Any, Operation], Outcome],
        reads: Collection[str],
    ) -> None:
        self._operations = operations
        self._reads = sum(1 << n for n, op in enumerate(operations) if op.name in reads)
        self._apply = apply
        self._required = [op.result is not UNKNOWN for op in operations]
        self._known = sum(1 << n for n, must in enumerate(self._required) if must)

    def is_complete(self, done: int) -> bool:
        """Whether nothing is left that must have taken effect."""
        return done & self._known == self._known

    def with_reads(self, done: int, state: Hashable) -> int:
        """Add the reads that may come next: what changes nothing need not wait."""
        while True:
            more = done
            for n in self._next(done):
                if self._reads >> n & 1:
                    more |= self._explains(n, self._apply(state, self._operations[n])) << n
            if more == done:
                return done
            done = more

    def without_expired(self, done: int) -> int:
        """Count as done what need not have taken effect, and can do so no more."""
        latest = self._latest(done)
        n = _lowest_zero(done)
        while n < len(self._operations) and self._operations[n].began <= latest:
            if not self._required[n] and self._operations[n].deadline < latest:
                done |= 1 << n
            n += 1
        return done

    def _latest(self, done: int) -> float:
        """When the latest call that is done began."""
        return self._operations[done.bit_length() - 1].began if done else -math.inf

    def steps(self, done: int, state: Hashable) -> list[tuple[int, Hashable]]:
        """What may come next, the likeliest last: what must come, and soonest."""
        operations = self._operations
        found = sorted(self._next(done), key=lambda n: (self._required[n], -operations[n].deadline))
        outcomes = [(n, self._apply(state, operations[n])) for n in found]
        return [
            (done | 1 << n, outcome.state) for n, outcome in outcomes if self._explains(n, outcome)
        ]

    def _next(self, done: int) -> list[int]:
        """The calls that may come next; none may that ended before another began that is done."""
        operations = self._operations
        latest = self._latest(done)
        limit, found = math.inf, []
        n = _lowest_zero(done)
        while n < len(operations) and operations[n].began <= limit:
            if not done >> n & 1:
                deadline = operations[n].deadline
                # A call that begins after another has ended comes after it.
                if self._required[n]:
                    limit = min(limit, deadline)
                if deadline >= latest:
                    found.append(n)
            n += 1
        return [n for n in found if operations[n].began <= limit]

    def _explains(self, n: int, outcome: Outcome) -> bool:
        return self._operations[n].result in (UNKNOWN, outcome.result)


def _lowest_zero(bits: int) -> int:
    """The number of the lowest bit that is 0."""
    return (~bits & (bits + 1)).bit_length() - 1
