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
        run_batch: sends some items, any of them again if need be, until a deadline.
        max_concurrency: how many calls of it there are at a time; here as many as threads.
        expired: makes the error of an item whose time is over before it could be sent.
    """

    def __init__(
        self,
        run_batch: RunBatch[T],
        max_concurrency: int,
        expired: Callable[[], Exception],
    ) -> None:
        self._run_batch = run_batch

    def run(self, item: T, deadline: Deadline) -> None:
        """Send an item, and return when that is done."""
        self._run_batch([item], deadline)
