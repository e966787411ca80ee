"""psycopg's async pool, and what its sync pool needs in another form."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import Future
from typing import Any, TypeVar

from psycopg_pool import AsyncConnectionPool

__all__ = ["DriverPool", "as_pool_worker", "result_within"]

T = TypeVar("T")

DriverPool = AsyncConnectionPool


async def result_within(seconds: float, future: Future[T]) -> T:
    """Return the result of work in a thread, or raise TimeoutError after so many seconds."""
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
    except asyncio.TimeoutError:
        raise TimeoutError(f"no result within {seconds:.3g} s") from None


async def as_pool_worker(work: Awaitable[T]) -> T:
    """Return the result of some work in a task of the pool, so that the task can be cancelled."""
    try:
        return await work
    except asyncio.CancelledError:
        # The pool catches this, and the task would go on to wait for its next work for ever.
        task = asyncio.current_task()
        assert task is not None
        _cancel_until_done(task)
        raise


def _cancel_until_done(task: asyncio.Task[Any]) -> None:
    if not task.done():
        task.cancel()
        task.get_loop().call_later(0.01, _cancel_until_done, task)
