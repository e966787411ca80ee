"""Support for the suites of the sync API, with the names of `async_support`: threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, Generic, TypeVar

__all__ = ["Runner", "Started", "end", "gather", "pause", "settle", "take"]

T = TypeVar("T")


def gather(*calls: Callable[[], T]) -> list[T]:
    """Make all calls concurrently, and return their results in the order of the calls."""
    with ThreadPoolExecutor(len(calls)) as threads:
        futures = [threads.submit(call) for call in calls]
        return [future.result() for future in futures]


def settle(*calls: Callable[[], T]) -> list[T | BaseException]:
    """Make all calls concurrently, and return the result or the error of each."""
    with ThreadPoolExecutor(len(calls)) as threads:
        futures = [threads.submit(call) for call in calls]
        return [future.exception() or future.result() for future in futures]


def take(iterator: Iterator[T], count: int) -> list[T]:
    """Return the next `count` items."""
    return list(islice(iterator, count))


def end(iterator: Iterator[Any]) -> None:
    """Leave an iteration before its end."""
    closing: Any = iterator
    closing.close()


def pause(seconds: float) -> None:
    """Let the other threads run for a while."""
    time.sleep(seconds)


class Started(Generic[T]):
    """A running call, in its own thread."""

    def __init__(self, call: Callable[[], T]) -> None:
        thread = ThreadPoolExecutor(1)
        self._future = thread.submit(call)
        thread.shutdown(wait=False)

    def done(self) -> bool:
        """Return whether the call has ended."""
        return self._future.done()

    def result(self) -> T:
        """Wait for the call, and return its result or raise its error."""
        return self._future.result()


class Runner:
    """Returns the results of sync calls, which were made already."""

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing was opened."""

    def run(self, result: Any) -> Any:
        """Return the result of a call."""
        return result

    def collect(self, iterate: Callable[[], Iterator[T]]) -> list[T]:
        """Return all items of the iterator that the call returns."""
        return list(iterate())
