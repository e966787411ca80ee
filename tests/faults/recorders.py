"""Clients that make random calls, and record when each began and ended, and its result."""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from tests.faults.linearizability import Operation

Given = TypeVar("Given")


class RandomCalls(ABC, Generic[Given]):
    """The random calls of one client.

    Args:
        seed: of the client's own choices, and part of its numbers.
    """

    def __init__(self, seed: int) -> None:
        self.history: list[Operation] = []
        self.seed = seed
        self._random = random.Random(seed)

    @abstractmethod
    def choose(self) -> tuple[str, Given]:
        """Return the name of the next call, and what it is given."""

    @abstractmethod
    def _start(self, store: Any, name: str, given: Given) -> Any:
        """Make a call of the sync API, or return the coroutine of one of the async API."""

    @abstractmethod
    def _remember(self, name: str, given: Given, began: float, result: Any) -> Any:
        """Add a call to the history, and return its result, or what it has raised, as it is there.

        It returns None if nothing was written, and raises what no call may raise.
        """

    def pause(self, longest: float) -> float:
        """Return a random number of seconds."""
        return self._random.uniform(0, longest)

    def call(self, store: Any) -> None:
        """Make one random call of the sync API."""
        self.make(store, *self.choose())

    def make(self, store: Any, name: str, given: Given) -> Any:
        """Make a call of the sync API, and return its result in the form of the history."""
        began = time.monotonic()
        result: Any
        try:
            result = self._start(store, name, given)
        except Exception as error:
            result = error
        return self._remember(name, given, began, result)

    async def call_async(
        self, store: Any, cancelled: float, soonest: float = 0.0, latest: float = 0.003
    ) -> None:
        """Make one random call of the async API.

        Args:
            cancelled: the probability that it is cancelled.
            soonest: the earliest time of the cancellation, in s after the beginning.
            latest: the latest time of the cancellation.
        """
        name, given = self.choose()
        after = None
        if self._random.random() < cancelled:
            after = self._random.uniform(soonest, latest)
        await self.make_async(store, name, given, after)

    async def make_async(
        self, store: Any, name: str, given: Given, cancelled_after: float | None = None
    ) -> Any:
        """Make a call of the async API, and return its result in the form of the history."""
        began = time.monotonic()
        call = asyncio.ensure_future(self._start(store, name, given))
        if cancelled_after is not None:
            asyncio.get_running_loop().call_later(cancelled_after, call.cancel)
        result: Any
        try:
            result = await call
        except (Exception, asyncio.CancelledError) as error:
            result = error
        return self._remember(name, given, began, result)
