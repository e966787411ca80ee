"""psycopg's async classes, and what its sync ones need in another form."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor, waiting
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from jazzmine.backends.postgres.errors import TimedOut
from jazzmine.backends.postgres.sockets import TICK, addresses_of, is_dead, until
from jazzmine.deadline import Deadline

__all__ = [
    "Cursor",
    "DriverConnection",
    "DriverPool",
    "as_pool_worker",
    "connect_within",
    "resolve_within",
]

T = TypeVar("T")
C = TypeVar("C", bound="DriverConnection")

Cursor = AsyncCursor[TupleRow]


class DriverConnection(AsyncConnection[TupleRow]):
    """A connection that waits for the server until `deadline`, if there is one.

    A call on it that is cancelled, or meets the deadline, ends at once and leaves it ACTIVE.
    """

    deadline: Deadline | None = None

    async def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Run one of psycopg's generators; when cancelled, don't wait for the server."""
        try:
            state = next(gen)
            while state == waiting.WAIT_R:
                await self._readable()
                state = gen.send(waiting.READY_R)
        except StopIteration as done:
            return done.value
        rest = until(self.deadline, _resumed(gen, state))
        return await waiting.wait_async(rest, self.pgconn.socket, interval=TICK)

    async def wait_for_reply(self, seconds: float) -> None:
        """Return when the server has sent something, or after so many seconds."""
        self.deadline = Deadline(seconds)
        with suppress(TimedOut):
            await self._readable()

    async def _readable(self) -> None:
        loop, socket = asyncio.get_running_loop(), self.pgconn.socket
        readable: asyncio.Future[bool] = loop.create_future()
        loop.add_reader(socket, _wake, readable, True)
        timer = None
        if self.deadline is not None:
            timer = loop.call_later(self.deadline.remaining(), _wake, readable, False)
        try:
            if not await readable:
                raise TimedOut("the server did not reply")
        finally:
            loop.remove_reader(socket)
            if timer is not None:
                timer.cancel()


def _wake(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)


def _resumed(gen: Any, state: Any) -> Any:
    try:
        while True:
            state = gen.send((yield state))
    except StopIteration as done:
        return done.value


class DriverPool(AsyncConnectionPool[C]):
    """psycopg's pool."""

    @staticmethod
    async def check_connection(conn: Any) -> None:
        """Raise if the connection is not to be used any more; that takes no round trip."""
        if conn.is_condemned or is_dead(conn):
            await conn.close()
            raise psycopg.OperationalError("the connection is lost")

    async def put_back(self, connection: C) -> None:
        """Take a connection back, also if that was interrupted before."""
        if connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
            await connection.close()
        connection._pool = self
        await self.putconn(connection)


async def connect_within(
    kind: type[C], seconds: float, conninfo: str, options: dict[str, Any]
) -> C:
    """Connect to one server.

    Raises:
        psycopg.Error: the server refused it, or it could not be reached within so many seconds.
    """
    task: asyncio.Task[C] = asyncio.ensure_future(kind.connect(conninfo, **options))
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.add_done_callback(_close_late)
        task.cancel()
        raise
    if not task.done():
        task.add_done_callback(_close_late)
        task.cancel()
        raise psycopg.errors.ConnectionTimeout(f"no connection within {seconds:.3g} s")
    return task.result()


def _close_late(task: asyncio.Task[C]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().pgconn.finish()


async def resolve_within(seconds: float, host: str, port: str) -> list[str]:
    """Look up the addresses of a host.

    Raises:
        OSError: it has none, or none was found within so many seconds.
    """
    # In a thread that nobody waits for when the program ends, which the loop's own would be.
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def look_up() -> None:
        try:
            then = partial(_set_result, found, addresses_of(host, port))
        except Exception as error:
            then = partial(_set_exception, found, error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(then)

    threading.Thread(target=look_up, name="jazzmine-resolve", daemon=True).start()
    try:
        return await asyncio.wait_for(found, seconds)
    except asyncio.TimeoutError:
        raise TimeoutError(f"no address within {seconds:.3g} s") from None


def _set_result(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _set_exception(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


async def as_pool_worker(work: Awaitable[T]) -> T:
    """Wait for some work of a task of the pool, and see to it that the task can be cancelled."""
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
