"""The time by which a call has to be over, the pauses between its attempts, and times in ms."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextvars import ContextVar
from time import monotonic

CALL_BEGAN: ContextVar[float | None] = ContextVar("jazzmine_call_began", default=None)
"""When the public method began that is being called, by the monotonic clock."""


class SharedBeginning(float):
    """The start of a call that consists of several calls."""


# Drivers and servers refuse times for a call of 2**31 ms (25 days) or more.
_LONGEST_CALL = 2_000_000.0

# Some refuse expiry dates beyond 64 bits, or after the year 9999; this is 1,000 years.
_LONGEST = 1000 * 365 * 24 * 3600.0


class Deadline:
    """The time at which a call must have ended.

    Args:
        timeout: the time until then, in s; one of more than 23 days counts as 23 days.
        began: the start, by the monotonic clock; None is now.
    """

    __slots__ = ("_at",)

    def __init__(self, timeout: float, began: float | None = None) -> None:
        began = monotonic() if began is None else began
        self._at = began + min(timeout, _LONGEST_CALL)

    def __lt__(self, other: Deadline) -> bool:
        return self._at < other._at

    def remaining(self) -> float:
        """Return the remaining time in s, 0 after the deadline."""
        return max(0.0, self._at - monotonic())

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return monotonic() >= self._at


def call_deadline(timeout: float) -> Deadline:
    """Return the deadline of the current public call; outside of a call, a new one."""
    return Deadline(timeout, CALL_BEGAN.get())


def begin_call() -> None:
    """Give the rest of a call a deadline of its own, after a step with another one."""
    if CALL_BEGAN.get() is not None:
        CALL_BEGAN.set(monotonic())


def backoff(first: float, longest: float) -> Iterator[float]:
    """Yield pauses, in s, that grow from about `first` to about `longest`, with jitter."""
    pause = first
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, longest)


def milliseconds(seconds: float) -> int:
    """Return a time in ms for a server: never 0, and never longer than 1,000 years."""
    return max(1, round(min(seconds, _LONGEST) * 1000))
