"""PyMongo's sync classes, and what waits for another call, under names that both APIs share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import sleep
from typing import Any, Generic, TypeAlias, TypeVar

from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.collection import Collection as PyMongoCollection

from jazzmine.deadline import Deadline

__all__ = [
    "BackgroundTask",
    "Client",
    "Collection",
    "Condition",
    "MicroBatcher",
    "Session",
    "Work",
    "sleep",
]

T = TypeVar("T")

Client: TypeAlias = MongoClient[dict[str, Any]]
Collection: TypeAlias = PyMongoCollection[dict[str, Any]]
Session: TypeAlias = ClientSession
Work: TypeAlias = Callable[..., T]


class Condition(threading.Condition):
    """A condition that is waited for until a deadline."""

    def wait_until(self, deadline: Deadline) -> bool:
        """Wait for a notification; return False if none came before the deadline."""
        return self.wait(deadline.remaining())


class BackgroundTask:
    """Work that goes on after the call that caused it; here it is done at once, by the caller."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work

    def start(self) -> None:
        """Do it."""
        self._work()

    def close(self) -> None:
        """End it."""


class MicroBatcher(Generic[T]):
    """Writes each item at once: threads have connections of their own.

    Args:
        write: writes items until a deadline, any of them again if need be.
        max_concurrency: how many calls of `write` may run; as many as there are threads.
    """

    def __init__(self, write: Callable[[list[T], Deadline], None], max_concurrency: int) -> None:
        self._write = write

    def run(self, item: T, deadline: Deadline) -> None:
        """Write an item, and raise what writing it raised."""
        self._write([item], deadline)
