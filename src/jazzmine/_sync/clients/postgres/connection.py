"""Connections to PostgreSQL whose calls end at a deadline."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from operator import attrgetter
from time import monotonic
from typing import Any, Self

import psycopg
from psycopg import RawCursor, generators, waiting
from psycopg.rows import TupleRow, tuple_row
from psycopg.types.numeric import Int8BinaryDumper

from jazzmine._compat.concurrency import sync_sleep as sleep
from jazzmine.backends.postgres.dsn import Address
from jazzmine.backends.postgres.errors import (
    TimedOut,
    connection_error,
    is_of_event_loop,
    unavailable,
)
from jazzmine.backends.postgres.instrumentation import instrument
from jazzmine.backends.postgres.schema import Query, bind
from jazzmine.backends.postgres.settings import SETTINGS
from jazzmine.backends.postgres.sockets import reset
from jazzmine.config import PostgresConfig
from jazzmine.deadline import Deadline
from jazzmine.errors import ConfigurationError
from jazzmine.process import PROCESS

__all__ = ["CANCEL_SECONDS", "Connection", "Connector", "require_isolation", "require_usable"]

logger: logging.Logger = logging.getLogger("jazzmine")

# How long a statement waits for a locked row before another one has its connection, in s.
_LOCK_SECONDS = 1.0
# How often, in s, a wait for the server looks for a signal.
_TICK = 0.1
# How long a request to cancel a statement may take, in s.
CANCEL_SECONDS = 1.0
# The pause, in s, between attempts to reach a server.
_RECONNECTING = 0.5


# OpenTelemetry's instrumentor replaces the method, and puts one back that makes no subclass.
_CONNECT: Any = attrgetter("__func__")(psycopg.Connection.connect)


class Connection(psycopg.Connection[TupleRow]):
    """A connection that waits for the server until a deadline.

    With a deadline, a call that is cancelled, or meets it, ends at once and leaves it ACTIVE.

    Attributes:
        deadline: until when its calls wait for the server; None is psycopg's own way to wait.
        opened_at: when it was opened, by the monotonic clock.
        process_id: the process that opened it.
        own_cursor: makes the cursors of `run`, whose parameters are numbered.
    """

    deadline: Deadline | None = None
    own_cursor: Any = RawCursor

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.opened_at: float = monotonic()
        self.process_id: int = PROCESS.id

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Connect as psycopg does, whether or not its method was replaced."""
        connection: Self = _CONNECT(cls, conninfo, **options)
        return connection

    def wait(self, gen: Any, interval: float = _TICK, timeout: float | None = None) -> Any:
        """Run one of psycopg's generators to its end, and return its value.

        Raises:
            TimedOut: the deadline passed before it ended; the server was not waited for.
        """
        if self.deadline is None:  # the application runs it, on its own pool
            return super().wait(gen, interval, timeout)
        try:
            remaining = self.deadline.remaining()
            return waiting.wait(gen, self.pgconn.socket, interval, remaining)
        except psycopg.OperationalError:
            if self.deadline.expired:
                raise TimedOut("the server did not reply") from None
            raise
        finally:
            # An error keeps this frame, and so the generator, which may hold a socket.
            gen.close()

    def run(
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
            ConfigurationError: the process was forked, and has its parent's pool.
        """
        if self.process_id != PROCESS.id:
            raise ConfigurationError(
                "the pool belongs to the process before the fork: make a pool, and open the store,"
                " in each forked process"
            )
        cursor = self.own_cursor(self, row_factory=tuple_row)
        given = list(map(values.__getitem__, query.names)) if values else None
        # A text without parameters may have several statements, if it is sent as it is.
        cursor.execute(query.text, given, prepare=prepare, binary=given is not None)
        result = cursor.pgresult
        rows: list[Any] = cursor.fetchall() if result is not None and result.nfields else []
        return rows

    def cancel_and_close(self) -> None:
        """Ask the server to end the statement that runs, and give the connection up.

        Its socket is reset: otherwise the kernel would go on sending what has not arrived, and the
        server might receive it minutes later.
        """
        # Before version 17, libpq's request blocks the whole process while the network is silent.
        if psycopg.capabilities.has_cancel_safe():
            with suppress(psycopg.Error):
                request = self.pgconn.cancel_conn()
                request.start()
                waiting.wait_conn(
                    generators.cancel(request), _TICK, timeout=CANCEL_SECONDS
                )
        reset(self.pgconn)
        self.close()


class Connector:
    """Opens the connections of a store. The pool takes it for the class of its connections.

    Args:
        address: where.
        config: that of the store.
        is_closed: whether the pool is closed.

    Attributes:
        failure: the error of the last attempt; None if it succeeded.
    """

    def __init__(
        self,
        address: Address,
        config: PostgresConfig,
        is_closed: Callable[[], bool] = lambda: True,
    ) -> None:
        self._address = address
        self._timeout, self._prepare = config.timeout, config.prepare
        self._is_closed = is_closed
        self.failure: psycopg.Error | None = None

    def connect(self, *_: object, **__: object) -> Connection:
        """Open a connection, for which the pool waits.

        While no server can be reached this tries again: psycopg's pool would do so at longer and
        longer intervals, then no more, and would log each attempt.
        """
        while True:
            try:
                return self.open()
            except psycopg.Error:
                if self._is_closed():
                    raise
            sleep(_RECONNECTING)

    def open(self) -> Connection:
        """Open a connection.

        Raises:
            psycopg.Error: the server refused it, or could not be reached.
        """
        try:
            connection = Connection.connect(
                self._address.conninfo,
                autocommit=True,
                cursor_factory=RawCursor,
                prepare_threshold=0 if self._prepare else None,
            )
            try:
                # psycopg picks the type of an integer by its size, and each combination of types
                # would be prepared anew; ours are all 64 bits wide.
                connection.adapters.register_dumper(int, Int8BinaryDumper)
                instrument(connection)
                connection.own_cursor = connection.cursor_factory
                self._set_up(connection)
            except BaseException:
                connection.close()
                raise
        except (psycopg.Error, OSError, UnicodeError) as error:
            failure = connection_error(error, self._address)
            if self.failure is None and not is_of_event_loop(failure):
                text = unavailable(failure, self._address)
                logger.warning("%s; it is tried again until it can be reached", text)
            self.failure = failure
            raise failure from None
        self.failure = None
        return connection

    def _set_up(self, connection: Connection) -> None:
        connection.deadline = Deadline(self._timeout)
        values = {
            "timeout": str(math.ceil(min(self._timeout * 1000, 2**31 - 1))),
            "lock_timeout": str(math.ceil(min(self._timeout, _LOCK_SECONDS) * 1000)),
            "interval": "500",
            "pid": connection.info.backend_pid,
        }
        try:
            connection.run(bind(SETTINGS), values, prepare=False)
        except psycopg.errors.InvalidParameterValue:
            # The operating system of the server lacks what this setting needs.
            connection.run(bind(SETTINGS), {**values, "interval": "0"}, prepare=False)


def require_usable(pool: Any) -> None:
    """Raise ConfigurationError unless the application's pool is open, and of our connections."""
    kind = getattr(pool, "connection_class", None)
    if not (isinstance(kind, type) and issubclass(kind, Connection)):
        raise _unusable("another connection_class")
    if pool.closed:
        raise ConfigurationError("pool must be open before the store is opened")


def require_isolation(connection: Connection) -> None:
    """Raise ConfigurationError if calls on such connections could overlook what others commit."""
    if not connection.autocommit:  # of a pool of the application
        raise _unusable("no autocommit")
    (level,) = (connection.run(bind("SHOW transaction_isolation")))[0]
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
