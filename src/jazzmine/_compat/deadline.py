"""The time by which a call has to end."""

from __future__ import annotations

import time

__all__ = ["Deadline"]


class Deadline:
    """The moment at which a call has to end, counted from now.

    Args:
        seconds: how long the call may take.
    """

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Return the time that is left, in s; 0 if there is none."""
        return max(0.0, self._end - time.monotonic())

    @property
    def expired(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self._end
