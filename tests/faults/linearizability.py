"""Check whether a history of concurrent calls is linearizable (Wing, Gong, Lowe).

A call takes effect once between its beginning and its end. One whose outcome is unknown may take
effect at any moment after its beginning, or never; or, if the store promises it, only until a
later call has returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple


class _Special(Enum):
    """A result without a value; an Enum, because its members are equal in every process."""

    UNKNOWN = "unknown"


UNKNOWN = _Special.UNKNOWN
"""The result of a call that raised an error and whose outcome is unknown."""


class TooHardError(Exception):
    """There are too many orders to try, so it is unknown whether the history is possible."""


class Outcome(NamedTuple):
    """The result of a call on a state, and the state after it."""

    result: Any
    state: Hashable


@dataclass(frozen=True)
class Operation:
    """A call: its name and arguments, when it began and ended, and its result.

    Args:
        until: if the result is UNKNOWN, the time after which it cannot take effect.
    """

    name: str
    argument: Any
    began: float
    ended: float
    result: Any
    until: float = math.inf

    @property
    def deadline(self) -> float:
        """The time after which the call cannot take effect."""
        return self.until if self.result is UNKNOWN else self.ended


def bounded(
    history: Sequence[Operation],
    is_related: Callable[[Operation, Operation], bool] = lambda one, other: True,
) -> list[Operation]:
    """Set the time after which a call with an unknown outcome cannot take effect: when a later,
    related call has returned.
    """
    known = [operation for operation in history if operation.result is not UNKNOWN]
    found = []
    for operation in history:
        if operation.result is UNKNOWN:
            later = (
                other.ended
                for other in known
                if other.began > operation.ended and is_related(operation, other)
            )
            operation = replace(operation, until=min([operation.until, *later]))
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
    """Return whether the results are possible for some order of the calls.

    Args:
        history: the calls.
        first: the state before all calls.
        apply: returns the outcome of a call on a state; it must not change the state.
        reads: the names of the calls that only read.
        most: the maximum number of partial orders to try.

    Raises:
        TooHardError: none of these is possible, and there are more to try.
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
    """The calls in the order of their beginnings; a set of calls is a number, bit by bit."""

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
        """Return whether all calls that must have taken effect are done."""
        return done & self._known == self._known

    def with_reads(self, done: int, state: Hashable) -> int:
        """Add the reads that may come next; they change nothing, so their order is free."""
        while True:
            more = done
            for n in self._next(done):
                if self._reads >> n & 1:
                    more |= self._explains(n, self._apply(state, self._operations[n])) << n
            if more == done:
                return done
            done = more

    def without_expired(self, done: int) -> int:
        """Count as done the calls of unknown outcome that cannot take effect any more."""
        latest = self._latest(done)
        n = _lowest_zero(done)
        while n < len(self._operations) and self._operations[n].began <= latest:
            if not self._required[n] and self._operations[n].deadline < latest:
                done |= 1 << n
            n += 1
        return done

    def _latest(self, done: int) -> float:
        """Return the latest beginning of a call that is done."""
        return self._operations[done.bit_length() - 1].began if done else -math.inf

    def steps(self, done: int, state: Hashable) -> list[tuple[int, Hashable]]:
        """Return the calls that may come next; the one that must end first is the last."""
        operations = self._operations
        found = sorted(self._next(done), key=lambda n: (self._required[n], -operations[n].deadline))
        outcomes = [(n, self._apply(state, operations[n])) for n in found]
        # A call that need not take effect, and changes nothing, is as good as none.
        return [
            (done | 1 << n, outcome.state)
            for n, outcome in outcomes
            if self._explains(n, outcome) and (self._required[n] or outcome.state != state)
        ]

    def _next(self, done: int) -> list[int]:
        """Return the calls that may come next; not those that ended before a done call began."""
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
    """Return the number of the lowest bit that is 0."""
    return (~bits & (bits + 1)).bit_length() - 1
