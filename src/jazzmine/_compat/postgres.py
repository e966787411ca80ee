"""psycopg's two pools, which keep no program from its end and no task from its cancellation."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

__all__ = ["AsyncDriverPool", "SyncDriverPool", "async_getconn_of", "sync_getconn_of"]

C = TypeVar("C", bound=Connection[Any])

A = TypeVar("A", bound=AsyncConnection[Any])


class AsyncDriverPool(AsyncConnectionPool[A]):
    """psycopg's pool, whose workers end when they are cancelled, whatever they do then."""

    @classmethod
    async def worker(cls, q: Any) -> None:
        """Run tasks until the event loop ends."""
        await super().worker(cast(Any, _Tasks(q)))


class _Tasks:
    """The tasks of a worker, which psycopg's would go on with after a cancellation."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    async def get(self) -> Any:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        return await self._queue.get()


class SyncDriverPool(ConnectionPool[C]):
    """psycopg's pool, which does not wait for its threads when it is deleted."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._pid = os.getpid()
        super().__init__(*args, **options)

    def __del__(self) -> None:
        # A forked child has the pool's state, and neither its threads nor its connections; and
        # psycopg waits here for threads that may be connecting, or are gone with the program.
        if os.getpid() == self._pid and not self.closed and not sys.is_finalizing():
            self._signal_stop_worker()


def async_getconn_of(pool: Any) -> Callable[[float], Any]:
    """Return the method `getconn` of a pool, which ends with every cancellation.

    The pool waits in `asyncio.wait_for`, which in Python 3.11 loses a cancellation that comes while
    a connection is handed over: a task that was cancelled would go on.
    """

    async def getconn(timeout: float) -> Any:
        task = asyncio.current_task()
        requests = 0 if task is None else task.cancelling()
        connection = await pool.getconn(timeout)
        if task is not None and task.cancelling() > requests:
            await pool.putconn(connection)
            raise asyncio.CancelledError
        return connection

    return getconn


def sync_getconn_of(pool: Any) -> Callable[[float], Any]:
    """Return the method `getconn` of a pool."""
    return pool.getconn  # type: ignore[no-any-return]
