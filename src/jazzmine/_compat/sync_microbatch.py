"""Calls are sent one by one; waking threads would cost more than sending them together saves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from jazzmine.deadline import Deadline

__all__ = ["MicroBatcher", "RunBatch"]

T = TypeVar("T")
RunBatch = Callable[[Sequence[T], Deadline], None]


class MicroBatcher(Generic[T]):
    """Runs each item at once.

    Args:
        run_batch: sends some items, all or none, until a deadline.
        max_concurrency: how many calls of it there are at a time; the pool limits that.
        timeout: how long each item has, in s.
        expired: makes the error of an item whose time is over before it could be sent.
    """

    is_doubtful = False

    def __init__(
        self,
        run_batch: RunBatch[T],
        max_concurrency: int,
        timeout: float,
        expired: Callable[[], Exception],
    ) -> None:
        self._run_batch = run_batch
        self._timeout = timeout

    def run(self, item: T) -> None:
        """Send an item, and return when that is done."""
        self._run_batch([item], Deadline(self._timeout))

    def settle(self, deadline: Deadline) -> None:
        """Wait for nothing: no item is withdrawn."""

    def close(self) -> None:
        """Wait for nothing: each thread waits for its own."""
