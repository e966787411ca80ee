"""A connection to PostgreSQL whose calls end at a deadline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from operator import attrgetter
from time import monotonic
from typing import Any, Self

import psycopg
from psycopg import AsyncRawCursor, generators, waiting
from psycopg.rows import TupleRow, tuple_row

from jazzmine._compat.concurrency import AsyncWork as Work
from jazzmine._compat.concurrency import async_sleep as sleep
from jazzmine.backends.postgres.errors import TimedOut
from jazzmine.backends.postgres.schema import Query, bind
from jazzmine.backends.postgres.sockets import reset
from jazzmine.deadline import Deadline
from jazzmine.errors import ConfigurationError

__all__ = ["CANCEL_SECONDS", "Connecting", "Connection", "require_isolation", "require_usable"]

# How often, in s, a wait for the server looks for a signal.
_TICK = 0.1
# How long a request to cancel a statement may take, in s.
CANCEL_SECONDS = 1.0
# The pause, in s, between attempts to reach a server.
_RECONNECTING = 0.5


# OpenTelemetry's instrumentor replaces the method, and puts one back that makes no subclass.
_CONNECT: Any = attrgetter("__func__")(psycopg.AsyncConnection.connect)


class Connection(psycopg.AsyncConnection[TupleRow]):
    """A connection that waits for the server until a deadline.

    With a deadline, a call that is cancelled, or meets it, ends at once and leaves it ACTIVE.

    Attributes:
        deadline: until when its calls wait for the server; None is psycopg's own way to wait.
        opened_at: when it was opened, by the monotonic clock.
        own_cursor: makes the cursors of `run`, whose parameters are numbered.
    """

    deadline: Deadline | None = None
    own_cursor: Any = AsyncRawCursor

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.opened_at: float = monotonic()

    @classmethod
    async def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Connect as psycopg does, whether or not its method was replaced."""
        connection: Self = await _CONNECT(cls, conninfo, **options)
        return connection

    async def wait(self, gen: Any, interval: float = _TICK, timeout: float | None = None) -> Any:
        """Run one of psycopg's generators to its end, and return its value.

        Raises:
            TimedOut: the deadline passed before it ended; the server was not waited for.
        """
        if self.deadline is None:  # the application runs it, on its own pool
            return await super().wait(gen, interval, timeout)
        try:
            remaining = self.deadline.remaining()
            return await waiting.wait_async(gen, self.pgconn.socket, interval, remaining)
        except psycopg.OperationalError:
            if self.deadline.expired:
                raise TimedOut("the server did not reply") from None
            raise
        finally:
            # An error keeps this frame, and so the generator, which may hold a socket.
            gen.close()

    async def run(
        self,
        query: Query,
        values: Mapping[str, object] | None = None,
        *,
        prepare: bool | None = None,
    ) -> list[Any]:
        """Run a statement, and return its rows.

        Args:
            query: the statement.
            values: those of its parameters, by name.
            prepare: False plans it for these very values.

        Raises:
            psycopg.Error: it failed, or had no reply before the deadline.
        """
        cursor = self.own_cursor(self, row_factory=tuple_row)
        given = list(map(values.__getitem__, query.names)) if values else None
        # A text without parameters may have several statements, if it is sent as it is.
        await cursor.execute(query.text, given, prepare=prepare, binary=given is not None)
        result = cursor.pgresult
        rows: list[Any] = await cursor.fetchall() if result is not None and result.nfields else []
        return rows

    async def cancel_and_close(self) -> None:
        """Ask the server to end the statement that runs, and give the connection up.

        Its socket is reset: otherwise the kernel would go on sending what has not arrived, and the
        server might receive it minutes later.
        """
        # Before version 17, libpq's request blocks the whole process while the network is silent.
        if psycopg.capabilities.has_cancel_safe():
            with suppress(psycopg.Error):
                request = self.pgconn.cancel_conn()
                request.start()
                await waiting.wait_conn_async(
                    generators.cancel(request), _TICK, timeout=CANCEL_SECONDS
                )
        reset(self.pgconn)
        await self.close()


class Connecting:
    """What the pool takes for the class of its connections: it opens them as its client does.

    While no server can be reached it tries again: psycopg's pool would do so at longer and longer
    intervals, then no more, and would log each attempt.
    """

    def __init__(self, connect: Work[Connection], is_closed: Callable[[], bool]) -> None:
        self._connect = connect
        self._is_closed = is_closed

    async def connect(self, *_: object, **__: object) -> Connection:
        while True:
            try:
                return await self._connect()
            except psycopg.Error:
                if self._is_closed():
                    raise
            await sleep(_RECONNECTING)


def require_usable(pool: Any) -> None:
    """Raise ConfigurationError unless the application's pool is open, and of our connections."""
    kind = getattr(pool, "connection_class", None)
    if not (isinstance(kind, type) and issubclass(kind, Connection)):
        raise _unusable("another connection_class")
    if pool.closed:
        raise ConfigurationError("pool must be open before the store is opened")


async def require_isolation(connection: Connection) -> None:
    """Raise ConfigurationError if calls on such connections could overlook what others commit."""
    if not connection.autocommit:  # of a pool of the application
        raise _unusable("no autocommit")
    (level,) = (await connection.run(bind("SHOW transaction_isolation")))[0]
    if level == "repeatable read":
        raise ConfigurationError(
            "the role's transactions are REPEATABLE READ, in which an append could overlook"
            " another: ALTER ROLE … SET default_transaction_isolation = 'read committed'"
        )


def _unusable(reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"pool has {reason}: it must be a pool of psycopg_pool for this API, made with"
        " connection_class=jazzmine.core.postgres.Connection (in jazzmine.sync for plain"
        ' calls) and kwargs={"autocommit": True}'
    )
