"""psycopg in the awaitable world."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import AsyncConnection, AsyncCursor, waiting
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from jazzmine._compat.postgres_socket import Options, is_dead, shut_down

__all__ = ["Connection", "Connections", "Cursor", "Cutoff", "connect", "pause"]


Cursor = AsyncCursor[TupleRow]
Noted = Callable[[Exception | None], None]


class Connection(AsyncConnection[TupleRow]):
    """A connection; a call on it that is cancelled ends at once and leaves it unusable."""

    @classmethod
    async def connect(  # type: ignore[override]
        cls, conninfo: str = "", *, noted: Noted | None = None, **options: Any
    ) -> Connection:
        """Connect, and report the error or, with None, that there was none."""
        try:
            connection = await super().connect(conninfo, **options)
        except psycopg.Error as error:
            if noted is not None:
                noted(error)
            raise
        if noted is not None:
            noted(None)
        return connection

    async def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Run one of psycopg's generators; when cancelled, don't wait for the server."""
        return await waiting.wait_async(gen, self.pgconn.socket, *args, **options)


async def connect(options: Options, timeout: float) -> Connection:
    """Open a connection outside of any pool.

    Raises:
        psycopg.Error: the server refused it, or could not be reached within `timeout` s.
    """
    try:
        return await asyncio.wait_for(
            Connection.connect(options.conninfo, **options.connection()), timeout
        )
    except asyncio.TimeoutError:
        raise psycopg.errors.ConnectionTimeout("connection timeout expired") from None


async def pause(seconds: float) -> None:
    """Let so much time pass."""
    await asyncio.sleep(seconds)


class Cutoff:
    """Shuts a connection's socket down at a deadline, so that whoever waits on it fails.

    Args:
        connection: what to cut off, unless `cancel` comes first.
        seconds: when.
    """

    __slots__ = ("_timer", "struck")

    def __init__(self, connection: Connection, seconds: float) -> None:
        self.struck = False
        self._timer = asyncio.get_running_loop().call_later(seconds, self._strike, connection)

    def _strike(self, connection: Connection) -> None:
        self.struck = True
        shut_down(connection)

    def cancel(self) -> None:
        """Leave the connection alone."""
        self._timer.cancel()


class _Pool(AsyncConnectionPool[Connection]):
    @staticmethod
    async def check_connection(conn: Any) -> None:
        """Raise if the connection is known to be dead; that takes no round trip."""
        if is_dead(conn):
            await conn.close()
            raise psycopg.OperationalError("the connection is lost")


class Connections:
    """A pool of connections that are open whenever the server can be reached.

    `failure` is why the latest attempt to open one failed, or None.
    """

    def __init__(self, options: Options) -> None:
        self.failure: Exception | None = None
        self._failures = 0
        self._opened = False
        self._returning: set[asyncio.Task[None]] = set()
        self._pool = _Pool(
            conninfo=options.conninfo,
            connection_class=Connection,
            kwargs={**options.connection(), "noted": self._note},
            min_size=options.pool_min,
            max_size=options.pool_max,
            open=False,
            reconnect_timeout=0,
            reconnect_failed=self._reconnect,
        )

    def _note(self, error: Exception | None) -> None:
        self.failure = error
        self._failures = 0 if error is None else self._failures + 1

    async def _reconnect(self, pool: Any) -> None:
        # The pool itself would wait longer and longer, and then for ever.
        await asyncio.sleep(random.uniform(0.5, 1.0) * min(1.0, 0.1 * self._failures))
        await pool.check()

    async def open(self, timeout: float | None = None) -> None:
        """Open the pool's connections, and wait for them if there is a `timeout`."""
        self._opened = True
        await self._pool.open(wait=timeout is not None, timeout=timeout or 0)

    async def close(self) -> None:
        """Close all connections, those in use when they come back."""
        while self._returning:
            await asyncio.wait(self._returning)
        await self._pool.close()

    async def acquire(self, timeout: float) -> Connection:
        """Take a connection; it has to be released.

        Raises:
            PoolTimeout: none was free, or could be opened, within `timeout` s.
            PoolClosed: the pool is closed.
        """
        if not self._opened:
            await self.open()
        return await self._pool.getconn(timeout)

    async def release(self, connection: Connection) -> None:
        """Give a connection back, also when this call is cancelled."""
        if connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
            self._return_later(connection)
            return
        try:
            await self._pool.putconn(connection)
        except asyncio.CancelledError:
            # It had to wait for the pool's lock, and did not get it.
            self._return_later(connection)
            raise

    def _return_later(self, connection: Connection) -> None:
        task = asyncio.get_running_loop().create_task(self._return(connection))
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _return(self, connection: Connection) -> None:
        try:
            if connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                await connection.cancel_safe(timeout=1.0)
        except psycopg.Error:
            pass
        finally:
            await self._pool.putconn(connection)

    async def discard_dead(self) -> None:
        """Replace the idle connections that are known to be dead."""
        await self._pool.check()
