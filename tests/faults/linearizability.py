"""Was a history of concurrent calls possible if each took effect at one moment? (Wing, Gong, Lowe)

A call takes effect once between its beginning and its end. One whose outcome is unknown may
take effect at any moment after its beginning, or never.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["AGAIN", "ANY", "UNKNOWN", "Operation", "Outcome", "is_linearizable"]

UNKNOWN = object()
"""The result of a call that raised an error which leaves its outcome open."""

AGAIN = object()
"""The result of a call that may have been made once more, before its end."""

ANY = object()
"""The result of a call that took effect and returned something that does not count."""


class Outcome(NamedTuple):
    """What a call returns on a state, and the state after it."""

    result: Any
    state: Hashable


@dataclass(frozen=True)
class Operation:
    """A call: what it was, when it began and ended, and its result."""

    name: str
    argument: Any
    began: float
    ended: float
    result: Any

    @property
    def deadline(self) -> float:
        """Until when it has taken effect at the latest."""
        return math.inf if self.result is UNKNOWN else self.ended


def is_linearizable(
    history: Sequence[Operation], first: Hashable, apply: Callable[[Any, Operation], Outcome]
) -> bool:
    """Return whether some order of the calls explains all results.

    Args:
        history: the calls.
        first: the state before all of them.
        apply: what a call does on a state; it must leave the state as it is.
    """
    operations = sorted(history, key=lambda operation: operation.began)
    required = [op.result not in (UNKNOWN, AGAIN) for op in operations]
    known = sum(1 << n for n, must in enumerate(required) if must)
    seen: set[tuple[int, Hashable]] = set()
    stack: list[tuple[int, Hashable]] = [(0, first)]
    while stack:
        done, state = stack.pop()
        if done & known == known:
            return True
        rest = [n for n in range(len(operations)) if not done >> n & 1]
        # Whatever begins after another has ended comes behind it.
        limit = min(operations[n].deadline for n in rest if required[n])
        latest = max((op.began for n, op in enumerate(operations) if done >> n & 1), default=0)
        for n in rest:
            if operations[n].began > limit:
                break
            if operations[n].deadline < latest:
                continue
            outcome = apply(state, operations[n])
            if operations[n].result in (UNKNOWN, AGAIN, ANY, outcome.result):
                step = (done | 1 << n, outcome.state)
                if step not in seen:
                    seen.add(step)
                    stack.append(step)
    return False
