"""The same for the sync API: threads, and nothing to run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, Generic, TypeVar

__all__ = ["Runner", "Started", "gather", "pause", "settle", "take"]

T = TypeVar("T")


def gather(*calls: Callable[[], T]) -> list[T]:
    """Make all calls at once, and return their results in the order of the calls."""
    with ThreadPoolExecutor(len(calls)) as threads:
        futures = [threads.submit(call) for call in calls]
        return [future.result() for future in futures]


def settle(*calls: Callable[[], T]) -> list[T | BaseException]:
    """Make all calls at once, and return the result or the error of each."""
    with ThreadPoolExecutor(len(calls)) as threads:
        futures = [threads.submit(call) for call in calls]
        return [future.exception() or future.result() for future in futures]


def take(iterator: Iterator[T], count: int) -> list[T]:
    """Return the next `count` items."""
    return list(islice(iterator, count))


def pause(seconds: float) -> None:
    """Let the others go on for a while."""
    time.sleep(seconds)


class Started(Generic[T]):
    """A call under way, in a thread of its own."""

    def __init__(self, call: Callable[[], T]) -> None:
        thread = ThreadPoolExecutor(1)
        self._future = thread.submit(call)
        thread.shutdown(wait=False)

    def done(self) -> bool:
        """Whether it has come to its end."""
        return self._future.done()

    def result(self) -> T:
        """Wait for its end, and return its result or raise its error."""
        return self._future.result()


class Runner:
    """Makes the calls of a plain function: here they are made already."""

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing was opened."""

    def run(self, result: Any) -> Any:
        """Return what the call returned."""
        return result

    def collect(self, iterate: Callable[[], Iterator[T]]) -> list[T]:
        """Return all items of the iterator that the call returns."""
        return list(iterate())
