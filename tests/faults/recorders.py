"""Clients that make random calls, and record when each began and ended, and its result."""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from inspect import isawaitable
from typing import Any, ClassVar, Generic, TypeVar

from jazzmine import (
    ConflictError,
    LockLostError,
    LockTimeoutError,
    NotFoundError,
    StaleWorkingMemoryError,
    StoreUnavailableError,
)
from tests.faults.linearizability import UNKNOWN, Operation, Outcome

Given = TypeVar("Given")

MISSING = "missing"
"""The result of a call that raised NotFoundError."""

CONFLICT = "conflict"

# The lock was not free or was lost, another call was quicker, or the disk failed.
NOTHING_WRITTEN = (LockTimeoutError, LockLostError, StaleWorkingMemoryError, OSError)


class RandomCalls(ABC, Generic[Given]):
    """The random calls of one client, and what they do to a model of the store.

    Args:
        seed: of the client's own choices, and part of its numbers.

    Attributes:
        first: the state of the model before all calls.
        reads: the names of the calls that only read.
        unknown: the errors after which it is unknown whether a call was made.
    """

    unknown: ClassVar[tuple[type[BaseException], ...]] = (
        StoreUnavailableError,
        asyncio.CancelledError,
    )
    first: ClassVar[Any] = None
    reads: ClassVar[tuple[str, ...]]

    def __init__(self, seed: int) -> None:
        self.history: list[Operation] = []
        self.seed = seed
        self._random = random.Random(seed)

    @abstractmethod
    def choose(self) -> tuple[str, Given]:
        """Return the name of the next call, and what it is given."""

    @abstractmethod
    def reads_of_all(self) -> list[tuple[str, Given]]:
        """Return calls that read all that there is."""

    @abstractmethod
    def _start(self, store: Any, name: str, given: Given) -> Any:
        """Make a call of the sync API, or return the coroutine of one of the async API."""

    @abstractmethod
    def _found(self, name: str, given: Given, result: Any) -> Any:
        """Return the result of a call, or the ConflictError, as the model says it."""

    @abstractmethod
    def model(self, state: Any, operation: Operation) -> Outcome:
        """Apply a call to the state."""

    def record_of(self, operation: Operation) -> str:
        """Return the id of the record that a call is about, if each call is about one alone."""
        return ""

    def is_related(self, one: Operation, other: Operation) -> bool:
        """Return whether a call that has returned keeps an earlier one from taking effect later."""
        return True

    def pause(self, longest: float) -> float:
        """Return a random number of seconds."""
        return self._random.uniform(0, longest)

    async def call(self, store: Any, cancelled: float = 0.0, latest: float = 0.003) -> None:
        """Make one random call of either API.

        Args:
            store: the store.
            cancelled: the probability that it is cancelled, which the async API alone knows.
            latest: the latest time of the cancellation, in s after the beginning.
        """
        name, given = self.choose()
        after = None
        if cancelled and self._random.random() < cancelled:
            after = self._random.uniform(0, latest)
        await self.make(store, name, given, after)

    async def make(
        self, store: Any, name: str, given: Given, cancelled_after: float | None = None
    ) -> Any:
        """Make a call of either API, and return its result in the form of the history.

        It is None, and the history has no call, if nothing was written.
        """
        began = time.monotonic()
        result: Any
        try:
            result = self._start(store, name, given)
            if cancelled_after is not None:
                result = asyncio.ensure_future(result)
                asyncio.get_running_loop().call_later(cancelled_after, result.cancel)
            if isawaitable(result):
                result = await result
        except (Exception, asyncio.CancelledError) as error:
            result = error
        ended = time.monotonic()
        if isinstance(result, self.unknown):
            found: Any = UNKNOWN
        elif isinstance(result, NOTHING_WRITTEN):
            return None
        elif isinstance(result, NotFoundError):
            found = MISSING
        elif isinstance(result, BaseException) and not isinstance(result, ConflictError):
            raise result
        else:
            found = self._found(name, given, result)
        self._remember(Operation(name, given, began, ended, found), result)
        return found

    def _remember(self, call: Operation, result: Any) -> None:
        self.history.append(call)
