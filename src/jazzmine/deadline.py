"""The time by which a call has to be over, and the pauses between its attempts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from time import monotonic

__all__ = ["Deadline", "backoff"]


class Deadline:
    """The time at which a call must have ended.

    Args:
        timeout: the time until then, in s.
    """

    __slots__ = ("_at",)

    def __init__(self, timeout: float) -> None:
        self._at = monotonic() + timeout

    def __lt__(self, other: Deadline) -> bool:
        return self._at < other._at

    def remaining(self) -> float:
        """Return the remaining time in s, 0 after the deadline."""
        return max(0.0, self._at - monotonic())

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return monotonic() >= self._at

    def within(self, timeout: float) -> Deadline:
        """Return this deadline, or one in `timeout` s if that is earlier."""
        return min(self, Deadline(timeout))


def backoff(first: float, longest: float) -> Iterator[float]:
    """Yield pauses, in s, that grow from about `first` to about `longest`, with jitter."""
    pause = first
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, longest)
