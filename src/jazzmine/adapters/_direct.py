"""Sync stores called at once by coroutines, and repeating what another writer has come between."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, cast

from jazzmine.errors import ConflictError

__all__ = ["Direct", "completed", "retry_conflicts"]

T = TypeVar("T")

_RETRY_SECONDS = 30.0


def completed(call: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits, such as one on a `Direct` store."""
    try:
        call.send(None)
    except StopIteration as done:
        return cast(T, done.value)
    call.close()
    raise RuntimeError("the coroutine waits for an event loop")


class Direct:
    """Gives a sync store the async API: each call is done at once, and waits for no event loop."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._store, name)

        async def run(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        return run


async def retry_conflicts(attempt: Callable[[], Awaitable[T]], store: object = None) -> T:
    """Repeat an attempt, which reads and then writes, until no other writer comes between.

    Raises:
        ConflictError: that took more than 30 s.
    """
    until, longest = time.monotonic() + _RETRY_SECONDS, 0.002
    while True:
        try:
            return await attempt()
        except ConflictError:
            if time.monotonic() >= until:
                raise
        pause = random.uniform(0, longest)
        if isinstance(store, Direct):
            _sleep(pause)
        else:
            await asyncio.sleep(pause)
        longest = min(longest * 2, 0.1)


def _sleep(seconds: float) -> None:
    time.sleep(seconds)
