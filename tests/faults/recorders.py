"""Clients that make random calls, and record when each began and ended, and its result."""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from inspect import isawaitable
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

    async def call(
        self, store: Any, cancelled: float = 0.0, soonest: float = 0.0, latest: float = 0.003
    ) -> None:
        """Make one random call of either API.

        Args:
            store: the store.
            cancelled: the probability that it is cancelled, which the async API alone knows.
            soonest: the earliest time of the cancellation, in s after the beginning.
            latest: the latest time of the cancellation.
        """
        name, given = self.choose()
        after = None
        if cancelled and self._random.random() < cancelled:
            after = self._random.uniform(soonest, latest)
        await self.make(store, name, given, after)

    async def make(
        self, store: Any, name: str, given: Given, cancelled_after: float | None = None
    ) -> Any:
        """Make a call of either API, and return its result in the form of the history."""
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
        return self._remember(name, given, began, result)
