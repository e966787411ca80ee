"""psycopg's sync classes, and what its async ones need in another form."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import psycopg
from psycopg import Connection, waiting
from psycopg import Cursor as PsycopgCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

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

Cursor = PsycopgCursor[TupleRow]


class DriverConnection(Connection[TupleRow]):
    """A connection that waits for the server until `deadline`, if there is one.

    A call on it that is interrupted, or meets the deadline, ends at once and leaves it ACTIVE.
    """

    deadline: Deadline | None = None

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Run one of psycopg's generators; when interrupted, don't wait for the server."""
        return waiting.wait(until(self.deadline, gen), self.pgconn.socket, interval=TICK)

    def wait_for_reply(self, seconds: float) -> None:
        """Return when the server has sent something, or after so many seconds."""
        poll = select.poll()
        poll.register(self.pgconn.socket, select.POLLIN)
        poll.poll(seconds * 1000)


class DriverPool(ConnectionPool[C]):
    """psycopg's pool."""

    def __init__(self, **options: Any) -> None:
        self._affinity = os.getpid()
        super().__init__(**options)

    def __del__(self) -> None:
        # A forked child has the pool's state, and neither its threads nor its connections; and
        # psycopg waits here for threads that may be connecting, or are gone with the program.
        if os.getpid() == self._affinity and not self.closed and not sys.is_finalizing():
            self._signal_stop_worker()

    @staticmethod
    def check_connection(conn: Any) -> None:
        """Raise if the connection is not to be used any more; that takes no round trip."""
        if conn.is_condemned or is_dead(conn):
            conn.close()
            raise psycopg.OperationalError("the connection is lost")

    def put_back(self, connection: C) -> None:
        """Take a connection back, also if that was interrupted before."""
        if connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
            connection.close()
        connection._pool = self
        self.putconn(connection)


class _Thread(threading.Thread, Generic[T]):
    """Runs what cannot be interrupted; a result that comes too late is discarded."""

    def __init__(self, work: Callable[[], T], discard: Callable[[T], object]) -> None:
        super().__init__(name="jazzmine-connect", daemon=True)
        self._work = work
        self._discard = discard
        self._mutex = threading.Lock()
        self._abandoned = False
        self._results: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            result = self._work()
        except BaseException as error:
            self._error = error
            return
        with self._mutex:
            if self._abandoned:
                self._discard(result)
            else:
                self._results.append(result)

    def result_within(self, seconds: float, late: Exception) -> T:
        try:
            self.start()
            self.join(min(seconds, threading.TIMEOUT_MAX))
        finally:
            with self._mutex:
                self._abandoned = True
        if self._results:
            return self._results[0]
        raise self._error or late


def connect_within(kind: type[C], seconds: float, conninfo: str, options: dict[str, Any]) -> C:
    """Connect to one server.

    Raises:
        psycopg.Error: the server refused it, or it could not be reached within so many seconds.
    """
    thread = _Thread(lambda: kind.connect(conninfo, **options), lambda late: late.close())
    timed_out = psycopg.errors.ConnectionTimeout(f"no connection within {seconds:.3g} s")
    return thread.result_within(seconds, timed_out)


def resolve_within(seconds: float, host: str, port: str) -> list[str]:
    """Look up the addresses of a host.

    Raises:
        OSError: it has none, or none was found within so many seconds.
    """
    thread = _Thread(lambda: addresses_of(host, port), lambda late: None)
    return thread.result_within(seconds, TimeoutError(f"no address within {seconds:.3g} s"))


def as_pool_worker(result: T) -> T:
    """Return what a thread of the pool has worked out: a thread needs no more to end."""
    return result
