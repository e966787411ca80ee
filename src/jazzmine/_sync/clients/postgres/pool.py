"""A pool of connections to PostgreSQL that replaces those that are lost."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from jazzmine._sync.background import BackgroundTasks
from jazzmine._sync.clients.postgres.connection import Connection, Connector
from jazzmine._compat.sync_concurrency import sleep
from jazzmine._compat.sync_postgres import DriverPool
from jazzmine.backends.postgres.errors import TimedOut
from jazzmine.backends.postgres.leases import is_lease_gone
from jazzmine.backends.postgres.sockets import is_dead, reply
from jazzmine.config import PostgresConfig
from jazzmine.deadline import Deadline

__all__ = ["PostgresPool"]

# How long a request to cancel a statement may take, and the reply to the statement after it, in s.
_CANCEL_SECONDS = 1.0
_REPLY_SECONDS = 0.5


class _Pool(DriverPool[Connection]):
    @staticmethod
    def check_connection(conn: Connection) -> None:
        """Raise if the connection is not to be used any more; that takes no round trip."""
        if conn.is_condemned or is_dead(conn):
            conn.close()
            raise psycopg.OperationalError("the connection is lost")


class PostgresPool:
    """psycopg's pool, which replaces lost connections and cancels statements without a caller.

    When a connection is lost, all that were not used since are suspect: the next call that gets
    one checks it first. If the server does not reply on it either, all suspect ones are replaced.
    """

    def __init__(self, config: PostgresConfig, connector: Connector) -> None:
        self._timeout = config.timeout
        self._connector = connector
        self._discarding = BackgroundTasks()
        self._reconnecting = BackgroundTasks()
        self._is_reconnecting = False
        self.is_open = False
        self._acquiring = 0  # how many calls ask for a connection
        self._pool = _Pool(
            connection_class=Connection,
            kwargs={"connector": connector},
            min_size=config.pool_min,
            max_size=config.pool_max,
            open=False,
            reconnect_timeout=0,
            reconnect_failed=self._reconnect,
        )

    def open(self, timeout: float | None = None) -> None:
        """Open the pool's connections, and wait for them if there is a `timeout`."""
        self._pool.open(wait=timeout is not None, timeout=timeout or 0)
        self.is_open = True

    def settle(self) -> None:
        """Wait for the statements that are being cancelled."""
        self._discarding.close(_CANCEL_SECONDS + _REPLY_SECONDS)

    def close(self) -> None:
        """Close all connections, those in use when they are released."""
        self._pool.close(timeout=1.0)
        self._reconnecting.close(0.0)

    def acquire(self, deadline: Deadline) -> Connection:
        """Take a connection; it has to be released, or discarded.

        Raises:
            PoolTimeout: none was free, or could be opened, before the deadline.
            PoolClosed: the pool is closed.
        """
        if not self.is_open:
            self.open()
        while True:
            self._acquiring += 1
            try:
                connection = self._pool.getconn(deadline.remaining())
            finally:
                self._acquiring -= 1
            if not connection.is_suspect:
                return connection
            try:
                works = self._works(connection, deadline)
            except BaseException:
                self._discarding.start(partial(self._replace, connection))
                raise
            if works:
                return connection
            self._replace(connection)

    def release(self, connection: Connection) -> None:
        """Put a connection that works back into the pool."""
        if connection.is_suspect:
            connection.proved_at = monotonic()
        put_back = partial(self._put_back, connection)
        if self._acquiring:
            # If this were cancelled while psycopg's pool hands the connection to another call,
            # the pool would forget that call, which would wait until its deadline.
            self._discarding.run(put_back, wait=True)
            return
        try:
            self._pool.putconn(connection)
        except BaseException:
            self._discarding.start(put_back)
            raise

    def discard(self, connection: Connection, error: BaseException) -> None:
        """Replace a connection that is lost, or on which a statement has no caller any more.

        The statement is cancelled first; then the pool may open another connection.

        Args:
            error: what the statement has raised.
        """
        if isinstance(error, psycopg.Error):
            self._connector.suspected_at = monotonic()
        is_read_only = isinstance(error, psycopg.errors.ReadOnlySqlTransaction)
        if is_read_only:
            self._connector.avoid(connection.endpoint)
        if is_lease_gone(error) or (is_read_only and connection.refusal is None):
            # The others are most likely lost too: the pooler's server has restarted, or the
            # server has become a standby.
            self._connector.condemned_at = self._connector.suspected_at
        self._discarding.start(partial(self._cancel, connection))

    def _works(self, connection: Connection, deadline: Deadline) -> bool:
        if connection.is_condemned or is_dead(connection):
            return False
        connection.deadline = deadline.within(min(1.0, self._timeout / 4))
        suspected_at = self._connector.suspected_at
        try:
            connection.execute("", prepare=False)
        except TimedOut:
            self._connector.condemned_at = suspected_at
            self._pool.check()
            return False
        except psycopg.Error:
            return False
        connection.proved_at = monotonic()
        return True

    def _cancel(self, connection: Connection) -> None:
        try:
            if connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
                connection.cancel_safe(timeout=_CANCEL_SECONDS)
                # A pooler in between may drop the request when its client is gone.
                connection.deadline = Deadline(_REPLY_SECONDS)
                with suppress(TimedOut):
                    connection.wait(reply())
        except psycopg.Error:
            pass  # the server notices by itself that the client is gone
        finally:
            self._replace(connection)

    def _replace(self, connection: Connection) -> None:
        connection.close()
        self._put_back(connection)

    def _put_back(self, connection: Connection) -> None:
        # The call before may have been interrupted in psycopg's pool, which then has forgotten
        # that the connection is its own.
        if connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
            connection.close()
        connection._pool = self._pool
        self._pool.putconn(connection)

    def _reconnect(self, _: Any) -> None:
        # psycopg's pool would retry at longer and longer intervals, and then no more, and would log
        # each attempt. All its connections fail at once; one is tried now and then for all of them.
        if not self._is_reconnecting:
            self._is_reconnecting = True
            self._reconnecting.start(self._grow)

    def _grow(self) -> None:
        try:
            while not self._pool.closed:
                sleep(next(self._connector.pauses))
                with suppress(psycopg.Error):
                    connection = self._connector.connect()
                    connection.close()
                    break
        finally:
            self._is_reconnecting = False
        if not self._pool.closed:
            self._pool.check()
