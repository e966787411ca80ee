"""psycopg in the awaitable world."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any, Generic, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor, waiting
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from jazzmine._compat.postgres_socket import Options, is_dead, shut_down
from jazzmine.errors import StoreUnavailableError

__all__ = [
    "Combiner",
    "Connection",
    "Connections",
    "Cursor",
    "Cutoff",
    "Together",
    "connect",
    "pause",
]


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
        """Run one of psycopg's generators; when cancelled, don't wait for the server.

        A reply is waited for without a timer: the deadline has one of its own.
        """
        try:
            state = next(gen)
            while state == waiting.WAIT_R:
                await self._readable()
                state = gen.send(waiting.READY_R)
        except StopIteration as done:
            return done.value
        rest = _resumed(gen, state)
        return await waiting.wait_async(rest, self.pgconn.socket, interval=0.1)

    async def _readable(self) -> None:
        loop, socket = asyncio.get_running_loop(), self.pgconn.socket
        readable = loop.create_future()
        loop.add_reader(socket, _wake, readable)
        try:
            await readable
        finally:
            loop.remove_reader(socket)


def _wake(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


def _resumed(gen: Any, state: Any) -> Any:
    try:
        while True:
            state = gen.send((yield state))
    except StopIteration as done:
        return done.value


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


T = TypeVar("T")
Together = Callable[[Sequence[T], float], Awaitable[None]]


class Combiner(Generic[T]):
    """Has things done one by one, and together those that would have to wait for that.

    Args:
        together: does some of them at once, all or none, until a deadline.
        lanes: how many calls of it may be under way.
        timeout: how long each has, in s.
    """

    MOST = 200

    def __init__(self, together: Together[T], lanes: int, timeout: float) -> None:
        self._together = together
        self._free = lanes
        self._timeout = timeout
        self._waiting: deque[tuple[T, float, asyncio.Future[None]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, item: T) -> None:
        """Have it done. Who is cancelled while it waits withdraws it."""
        deadline = monotonic() + self._timeout
        if self._free == 0:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((item, deadline, future))
            await future
            return
        self._free -= 1
        try:
            await self._together([item], deadline)
        finally:
            self._leave()

    async def close(self) -> None:
        """Wait for what is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _leave(self) -> None:
        self._free += 1
        batch: list[tuple[T, float, asyncio.Future[None]]] = []
        while self._waiting and len(batch) < self.MOST:
            waiting = self._waiting.popleft()
            if not waiting[2].done():
                batch.append(waiting)
        if batch:
            self._free -= 1
            task = asyncio.get_running_loop().create_task(self._run_batch(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run_batch(self, batch: list[tuple[T, float, asyncio.Future[None]]]) -> None:
        try:
            # The first has waited longest.
            await self._together([item for item, _, _ in batch], batch[0][1])
        except StoreUnavailableError as error:
            for _, _, future in batch:
                _fail(future, _alike(error))
        except Exception:
            # One of them is to blame, and only that one is to fail.
            for item, deadline, future in batch:
                await self._run_alone(item, deadline, future)
        else:
            for _, _, future in batch:
                if not future.done():
                    future.set_result(None)
        finally:
            self._leave()

    async def _run_alone(self, item: T, deadline: float, future: asyncio.Future[None]) -> None:
        try:
            await self._together([item], deadline)
        except Exception as error:
            _fail(future, error)
        else:
            if not future.done():
                future.set_result(None)


def _fail(future: asyncio.Future[None], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _alike(error: StoreUnavailableError) -> StoreUnavailableError:
    # Each caller gets an error of its own: raising one adds to its traceback.
    one = StoreUnavailableError(*error.args)
    one.__cause__ = error.__cause__
    return one
