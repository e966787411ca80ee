"""Steps on a store of either API, for frameworks that have both plain calls and coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import wait
from typing import Any, TypeVar

from jazzmine._compat.concurrency import async_run_blocking as run_blocking
from jazzmine.adapters._calls import AsyncCalls, as_async, completed, finished

T = TypeVar("T")

# How long a plain call waits before it looks whether the event loop still runs, in s.
_LOOP_SECONDS = 1.0


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
        self.is_async: bool = as_async(store, kinds) is store
        self.store: Any = store if self.is_async else AsyncCalls(store, in_threads=False)
        self._loop: asyncio.AbstractEventLoop | None = (
            asyncio.get_running_loop() if self.is_async else None
        )

    def plain(self, step: Coroutine[Any, Any, T]) -> T:
        """Run a step for a plain call.

        Raises:
            RuntimeError: the caller is in the event loop that would have to run the step, or that
                does not run.
        """
        if self._loop is None:
            return completed(step)
        try:
            own = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            own = False
        if not own:
            future = asyncio.run_coroutine_threadsafe(step, self._loop)
            while self._loop.is_running():  # it may stop meanwhile
                if wait([future], _LOOP_SECONDS).done:
                    return future.result()
            future.cancel()
        step.close()
        raise RuntimeError(
            f"the event loop of the async store {'would be blocked' if own else 'does not run'}"
            ": await the coroutine of the same name with an a in front, or use a store of"
            " jazzmine.sync"
        )

    async def awaited(self, step: Coroutine[Any, Any, T]) -> T:
        """Run a step for a coroutine; once begun in a thread, it ends before a cancellation."""
        if self._loop is None:
            return await finished(run_blocking(completed, step))
        return await step
