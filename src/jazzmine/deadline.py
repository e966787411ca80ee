"""The time by which a call has to be over."""

from __future__ import annotations

from time import monotonic

__all__ = ["Deadline"]


class Deadline:
    """A moment in the future.

    Args:
        timeout: when it comes, in s from now.
    """

    __slots__ = ("_at",)

    def __init__(self, timeout: float) -> None:
        self._at = monotonic() + timeout

    def __lt__(self, other: Deadline) -> bool:
        return self._at < other._at

    def remaining(self) -> float:
        """Return how much time is left, in s; 0 if none is."""
        return max(0.0, self._at - monotonic())

    @property
    def expired(self) -> bool:
        """Whether it has come."""
        return monotonic() >= self._at

    def within(self, timeout: float) -> Deadline:
        """Return the earlier one of this deadline and `timeout` s from now."""
        return min(self, Deadline(timeout))
