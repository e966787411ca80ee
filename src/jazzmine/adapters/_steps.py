"""Steps on a store of either API, for frameworks that have both plain calls and coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from jazzmine._compat.async_concurrency import run_blocking
from jazzmine.adapters._calls import finished

__all__ = ["Steps"]

T = TypeVar("T")


class Steps:
    """Runs steps, each written once as a coroutine, for plain calls and for coroutines.

    Steps on a sync store never wait on an event loop: a plain call runs one to its end, and a
    coroutine does so in a thread. Steps on an async store run in the event loop in which this
    object was made; plain calls are made in other threads.

    Args:
        kinds: the async and the sync class of store.
        store: an open store of either.

    Raises:
        TypeError: it is no such store.
        RuntimeError: an async store was passed outside its event loop.
    """

    def __init__(self, store: Any, kinds: tuple[type[Any], type[Any]]) -> None:
        if not isinstance(store, kinds):
            raise TypeError(
                f"the store must be an open {kinds[0].__name__}, not {type(store).__name__}"
            )
        self.is_async: bool = isinstance(store, kinds[0])
        self.store: Any = store if self.is_async else Immediate(store)
        self._loop: asyncio.AbstractEventLoop | None = (
            asyncio.get_running_loop() if self.is_async else None
        )

    def plain(self, step: Coroutine[Any, Any, T]) -> T:
        """Run a step for a plain call.

        Raises:
            RuntimeError: the caller is in the event loop that would have to run the step.
        """
        if self._loop is None:
            return _result(step)
        try:
            own = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            own = False
        if own:
            step.close()
            raise RuntimeError(
                "a plain call would block the event loop of its async store: use the coroutine of "
                "the same name with an a in front, or a store of jazzmine.sync"
            )
        return asyncio.run_coroutine_threadsafe(step, self._loop).result()

    async def awaited(self, step: Coroutine[Any, Any, T]) -> T:
        """Run a step for a coroutine; once begun in a thread, it ends before a cancellation."""
        if self._loop is None:
            return await finished(run_blocking(_result, step))
        return await step


class Immediate:
    """Gives a sync store the async API: each call is done when its coroutine is first resumed."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._store, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        return call


def _result(step: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        step.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a step on a sync store waited")
