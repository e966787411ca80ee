"""Connections to PostgreSQL whose calls end at a deadline."""

from __future__ import annotations

import logging
import os
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import Cursor, waiting
from psycopg.pq.abc import PGconn
from psycopg.rows import TupleRow, tuple_row
from psycopg.types.numeric import Int8BinaryDumper

from jazzmine._compat.concurrency import sync_sleep as sleep
from jazzmine.backends.postgres.dsn import Address
from jazzmine.backends.postgres.errors import TimedOut, unavailable
from jazzmine.backends.postgres.schema import in_schema
from jazzmine.config import PostgresConfig
from jazzmine.deadline import Deadline, milliseconds
from jazzmine.errors import ConfigurationError
from jazzmine.process import PROCESS

logger: logging.Logger = logging.getLogger("jazzmine")

# How long a statement waits for a locked row before another one has its connection, in s.
_LOCK_SECONDS = 1.0
# How often, in s, a wait for the server looks for a signal.
_TICK = 0.1
# How long a request to cancel a statement may take, in s.
CANCEL_SECONDS = 1.0
# The pause, in s, between attempts to reach a server.
_RECONNECTING = 0.5

# The server ends a statement after the time of a call, and one that waits for a locked row lets
# another one have its connection: its store tries again. By the default of `random_page_cost`,
# which is that of a rotating disk, it would read and sort all of a long conversation for a page. A
# connection pooler, which reports its own process ids, shares sessions among clients, so nothing is
# set there.
_SETTINGS = """
SELECT set_config(name, value, false)
FROM (VALUES ('statement_timeout', '0', %(timeout)s), ('lock_timeout', '0', %(lock_timeout)s),
    ('random_page_cost', '4', '1.1')) AS settings (name, replaced, value)
WHERE pg_backend_pid() = %(pid)s AND current_setting(name) = replaced
"""


class Connection(psycopg.Connection[TupleRow]):
    """A connection that waits for the server until a deadline.

    With a deadline, a call that is cancelled, or meets it, ends at once and leaves it ACTIVE.

    Attributes:
        deadline: until when its calls wait for the server; None is psycopg's own way to wait.
        process_id: the process that opened it.
        cursor_class: the class of the cursors of `run`: an application may have others.
    """

    deadline: Deadline | None = None
    cursor_class: Any = Cursor

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.process_id: int = PROCESS.id

    def wait(self, gen: Any, interval: float = _TICK, timeout: float | None = None) -> Any:
        """Run one of psycopg's generators to its end or the deadline, and return its value."""
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
        statement: str,
        values: Mapping[str, object] | None = None,
        schema: str = "",
        *,
        prepare: bool | None = None,
    ) -> list[Any]:
        """Run a statement, and return its rows.

        Args:
            statement: with `$schema` for a schema; without values and with `prepare=False` it may
                be several.
            values: those of its parameters, by name.
            schema: its name.
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
        cursor = self.cursor_class(self, row_factory=tuple_row)
        text = in_schema(statement, schema)
        cursor.execute(text, values or None, prepare=prepare, binary=bool(values))
        result = cursor.pgresult
        return cursor.fetchall() if result and result.nfields else []

    def cancel_and_close(self) -> None:
        """Ask the server to end the statement that runs, and give the connection up.

        Its socket is reset: otherwise the kernel would go on sending what has not arrived, and the
        server might receive it minutes later.
        """
        # A pooler takes no request for a connection that is closed.
        # Before version 17, libpq's request blocks the whole process while the network is silent.
        if psycopg.capabilities.has_cancel_safe():
            with suppress(psycopg.Error):
                self.cancel_safe(timeout=CANCEL_SECONDS)
        _reset(self.pgconn)
        self.close()


class Connector:
    """Opens the connections of a store. The pool takes it for the class of its connections.

    Attributes:
        failure: the error of the pool's last attempt; None if it succeeded.
        is_closed: whether the pool is closed.
    """

    failure: psycopg.Error | None = None
    is_closed: bool = False

    def __init__(self, address: Address, config: PostgresConfig) -> None:
        self._address = address
        self._timeout, self._prepare = config.timeout, config.prepare

    def connect(self, *_: object, **__: object) -> Connection:
        """Open a connection, for which the pool waits.

        While no server can be reached this tries again: psycopg's pool would do so at longer and
        longer intervals, then no more, and would log each attempt.
        """
        while True:
            try:
                connection = self.open()
            except psycopg.Error as error:
                if self.is_closed:
                    raise
                if self.failure is None:
                    text = unavailable(error, self._address.name)
                    logger.warning("%s; it is tried again until it can be reached", text)
                self.failure = error
            else:
                self.failure = None
                return connection
            sleep(_RECONNECTING)

    def open(self) -> Connection:
        """Open a connection; psycopg's error says why that failed."""
        try:
            connection = Connection.connect(
                self._address.conninfo,
                autocommit=True,
                prepare_threshold=0 if self._prepare else None,
            )
        except UnicodeError as error:  # the name cannot be a host's
            raise psycopg.OperationalError(str(error)) from None
        try:
            # psycopg picks the type of an integer by its size, and each combination of types
            # would be prepared anew; ours are all 64 bits wide.
            connection.adapters.register_dumper(int, Int8BinaryDumper)
            connection.cursor_class = connection.cursor_factory  # an instrumentor's, perhaps
            connection.deadline = Deadline(self._timeout)
            values = {
                "timeout": str(min(milliseconds(self._timeout), 2**31 - 1)),
                "lock_timeout": str(milliseconds(min(self._timeout, _LOCK_SECONDS))),
                "pid": connection.info.backend_pid,
            }
            connection.run(_SETTINGS, values, prepare=False)
        except BaseException:
            connection.close()
            raise
        return connection


def _reset(connection: PGconn) -> None:
    """Close the socket of a connection so that nothing that waits to be sent is sent any more."""
    # A connection that is lost already has no socket any more.
    with suppress(OSError, ValueError, psycopg.OperationalError):
        copy = socket.socket(fileno=os.dup(connection.socket))
        try:
            copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        finally:
            copy.close()
    connection.finish()
