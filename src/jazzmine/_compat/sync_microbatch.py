"""Calls are sent one by one: waking a thread costs more than sending its call with others saves."""

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
        max_concurrency: not used in the sync API: there are as many calls as threads.
        expired: not used in the sync API: no item waits.
    """

    def __init__(
        self, run_batch: RunBatch[T], max_concurrency: int, expired: Callable[[], Exception]
    ) -> None:
        self._run_batch = run_batch

    def run(self, item: T, deadline: Deadline) -> None:
        """Send an item, and return when that is done."""
        self._run_batch([item], deadline)
