"""psycopg's two pools, which keep no program from its end and no task from its cancellation."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import coroutine
from typing import Any, TypeVar

from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from psycopg_pool.pool_async import StopWorker

from jazzmine._compat.concurrency import async_finish

C = TypeVar("C", bound=Connection[Any])

A = TypeVar("A", bound=AsyncConnection[Any])


class AsyncDriverPool(AsyncConnectionPool[A]):
    """psycopg's pool, whose workers end when they are cancelled, whatever they do then."""

    @classmethod
    async def worker(cls, q: Any) -> None:
        """Run tasks until the event loop ends."""
        this = asyncio.current_task()
        assert this is not None
        while not isinstance(task := await q.get(), StopWorker):
            with suppress(Exception):  # a task logs why it failed
                await task.run()
            if this.cancelling():  # a task that connects takes that for a failure, too
                break


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


class AsyncPoolAccess:
    """Takes connections from a pool and gives them back, whenever the task is cancelled."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def getconn(self, timeout: float) -> Any:
        """Take a connection.

        The pool waits in `asyncio.wait_for`, which in Python 3.11 loses a cancellation that comes
        while a connection is handed over: the task would go on.
        """
        task = asyncio.current_task()
        requests = 0 if task is None else task.cancelling()
        connection = await self._pool.getconn(timeout)
        if task is not None and task.cancelling() > requests:
            await self.putconn(connection)
            raise asyncio.CancelledError
        return connection

    async def putconn(self, connection: Any) -> None:
        """Give a connection back.

        Cancelled while it hands a connection over to a task that waits, the pool would lose the
        connection, and never wake the task.
        """
        returning = self._pool.putconn(connection)
        try:
            future = returning.send(None)
        except StopIteration:  # most often it does not wait, and needs no task
            return
        await async_finish(partial(_rest, returning, future))


@coroutine
def _rest(work: Any, future: Any) -> Iterator[Any]:
    """Run a coroutine to its end that waits for a future already."""
    yield future
    yield from work


class SyncPoolAccess:
    """Takes connections from a pool and gives them back."""

    def __init__(self, pool: Any) -> None:
        self.getconn = pool.getconn
        self.putconn = pool.putconn
