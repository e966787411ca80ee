"""Run the statements of a store on PostgreSQL, each until its reply or its deadline."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg_pool import PoolClosed, PoolTimeout

from jazzmine._async.background import BackgroundTasks
from jazzmine._async.clients.postgres.connection import CANCEL_SECONDS, Connection, Connector
from jazzmine._async.clients.postgres.migration import Tables, first_schema
from jazzmine._compat.concurrency import async_finish as finish
from jazzmine._compat.concurrency import async_sleep as sleep
from jazzmine._compat.postgres import AsyncDriverPool as DriverPool
from jazzmine._compat.postgres import AsyncPoolAccess as PoolAccess
from jazzmine.backends.postgres.dsn import Address
from jazzmine.backends.postgres.errors import (
    TimedOut,
    deadline_exceeded,
    is_disconnect,
    is_transient,
    translated,
    without_row,
)
from jazzmine.backends.postgres.schema import LONG_TRANSACTION, MESSAGE_TABLES, Component
from jazzmine.config import PostgresConfig
from jazzmine.deadline import Deadline, backoff, begin_call, call_deadline, milliseconds
from jazzmine.errors import ConfigurationError, StoreClosedError

# The pauses, in s, between the attempts at a call after the second one.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


class PostgresClient:
    """Runs one statement for each call, in one round trip, until its reply or its deadline.

    A call whose connection is lost is repeated on another one, if it may be repeated. Several
    stores may use a client: the first one opens it, and the last one closes it.

    Attributes:
        schema: the name of the schema; empty until it is known.
    """

    def __init__(self, config: PostgresConfig, *components: Component) -> None:
        kind = getattr(config.pool, "connection_class", type(None))
        if config.pool is not None and not issubclass(kind, Connection):
            raise _unusable("has another connection_class")
        self._config = config
        self.schema: str = config.schema or ""
        self._timeout = config.timeout
        self._components = components
        self._users = 0
        self._address = Address.of(config.dsn, config.timeout, config.url_options())
        self._connector = Connector(self._address, config)
        self._given_up = BackgroundTasks()
        self._pool: Any = config.pool or DriverPool(
            self._address.conninfo,
            connection_class=cast(Any, self._connector),
            min_size=config.pool_min,
            max_size=config.pool_max,
            open=False,
        )
        self._access = PoolAccess(self._pool)

    async def open(self) -> None:
        """Bring the schema up to date and open the pool; nothing is left open if it raises.

        Raises:
            ConfigurationError: the schema is not one that this library can use, or a pooler is in
                between that does not know prepared statements.
            StoreUnavailableError: the server refused the connection, or did not reply.
        """
        self._users += 1
        if self._users > 1:
            return
        try:
            is_changed = False
            async with self.apart() as connection:
                if not connection.autocommit:  # of a pool of the application
                    raise _unusable("has no autocommit")
                for component in self._components:
                    tables = Tables(connection, self._config, component)
                    is_changed |= await tables.bring_up_to_date()
            if is_changed:
                begin_call()
            if self._config.pool is None:
                await self._pool.open()
        except BaseException:
            await self.close()
            raise

    async def ping(self) -> None:
        """Run a statement that reads nothing."""
        await self.run("SELECT 1")

    async def pending(self) -> list[str]:
        """Return what `open` would change in the schema, in which nothing is changed."""
        async with self.apart() as connection:
            return [
                f"apply {step.version:04} {step.name} to schema {self.schema!r}"
                for component in self._components
                for step in await Tables(connection, self._config, component).pending()
            ]

    async def change_search(self, language: str | None) -> None:
        """Add the search index, make it anew for another language, or remove it."""
        async with self.apart() as connection:
            await Tables(connection, self._config, MESSAGE_TABLES).change_search(language)
        begin_call()

    @asynccontextmanager
    async def apart(self) -> AsyncIterator[Connection]:
        """Lend a new connection, or one of the application's pool, which may know another route.

        If it cannot be opened, this raises the server's error; the pool would only log it.
        """
        deadline = call_deadline(self._timeout)
        connection: Connection | None = None
        try:
            if self._config.pool is None:
                connection = await self._connector.open()
            else:
                await self.run("SELECT 1", deadline=deadline)  # replaces connections that were lost
                connection = await self._access.getconn(deadline.remaining())
            connection.deadline = deadline
            if not self.schema:
                self.schema = await first_schema(connection)
                self._config = replace(self._config, schema=self.schema)
            yield connection
            connection.deadline = None
        except BaseException as error:
            if self._config.pool is not None:
                await self._give_back(connection, error)
                connection = None
            if isinstance(error, psycopg.Error):
                raise translated(error, self._address.name) from without_row(error)
            raise
        finally:
            if connection is not None:
                if self._config.pool is not None:
                    await self._access.putconn(connection)
                elif connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
                    self._given_up.start(connection.cancel_and_close)
                else:
                    await connection.close()

    async def close(self) -> None:
        """Close all connections. Nothing is done while another store uses them."""
        self._users = max(0, self._users - 1)
        if not self._users:
            await finish(self._close)

    async def _close(self) -> None:
        await self._given_up.close(CANCEL_SECONDS)
        if self._config.pool is None:
            self._connector.is_closed = True
            await self._pool.close(timeout=1.0)

    async def run(
        self,
        statement: str,
        values: Mapping[str, object] | None = None,
        *,
        repeats: bool = True,
        prepare: bool | None = None,
        deadline: Deadline | None = None,
    ) -> list[Any]:
        """Run a statement, and return its rows.

        Args:
            statement: with `$schema` for the schema.
            values: those of its parameters, by name.
            repeats: whether it may be sent again if its reply was lost: it may have taken effect.
            prepare: False plans the statement for these very values.
            deadline: by default that of the call.

        Raises:
            JazzmineError: it failed, or had no reply within `timeout`.
        """
        deadline = deadline or call_deadline(self._timeout)
        pauses: Iterator[float] | None = None
        while True:
            connection: Connection | None = None
            is_sent_once = False
            try:
                connection = await self._access.getconn(deadline.remaining())
                connection.deadline = deadline
                if not repeats:
                    await connection.execute("", prepare=False)  # shows whether it is lost already
                    is_sent_once = True
                rows = await connection.run(statement, values, self.schema, prepare=prepare)
            except psycopg.Error as error:
                is_lost = await self._give_back(connection, error)
                is_repeatable = (
                    not is_sent_once if is_lost else is_transient(error, is_repeated=bool(pauses))
                )
                pauses = await self._pause_or_raise(error, is_repeatable, pauses, deadline)
            except BaseException as error:
                await self._give_back(connection, error)
                raise
            else:
                connection.deadline = None
                await self._access.putconn(connection)
                return rows

    async def _give_back(self, connection: Connection | None, error: BaseException) -> bool:
        """Give the connection of a statement that failed back; return whether it is lost."""
        if connection is None:  # the pool of an application may connect for each call
            return True
        is_lost = is_disconnect(error) or isinstance(error, TimedOut)
        if connection.pgconn.transaction_status == TransactionStatus.IDLE and not is_lost:
            connection.deadline = None
            await self._access.putconn(connection)
            return False
        # The statement may run still. The pool waits for that; the call does not.
        self._given_up.start(partial(self._replace, connection))
        if isinstance(error, psycopg.Error):
            await self._pool.drain()  # the others are most likely lost, too
        return True

    async def _replace(self, connection: Connection) -> None:
        try:
            await connection.cancel_and_close()
        finally:
            await self._access.putconn(connection)

    async def _pause_or_raise(
        self,
        error: psycopg.Error,
        is_repeatable: bool,
        pauses: Iterator[float] | None,
        deadline: Deadline,
    ) -> Iterator[float]:
        """Wait before another attempt at a call, or raise the error of the call.

        The pauses are None after the first attempt, since the second one is made at once.
        """
        if isinstance(error, PoolClosed):
            raise StoreClosedError("this store, or its pool, is not open") from error
        if isinstance(error, PoolTimeout):
            error = self._connector.failure or error
        elif not deadline.expired:
            if not is_repeatable:
                raise translated(error, self._address.name) from without_row(error)
            pause = next(pauses) if pauses else 0.0
            if pause < deadline.remaining():
                await sleep(pause)
                return pauses or backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        failure = deadline_exceeded(error, self._address.name, self._timeout)
        raise failure from without_row(error)

    async def stream(
        self, statements: Sequence[str], size: int
    ) -> AsyncIterator[tuple[int, list[TupleRow]]]:
        """Yield the rows of queries as they all were at one moment, on a connection apart.

        Before the first rows the server may sort all of them, within `migration_timeout`. There is
        no second attempt.

        Args:
            statements: the queries, with `$schema` for the schema; each one's number comes with
                its rows.
            size: how many rows at a time, at the most.
        """
        seconds = self._config.migration_timeout
        ms = str(min(milliseconds(seconds), 2**31 - 1))
        async with self.apart() as connection:
            connection.deadline = Deadline(seconds)
            async with connection.transaction():
                await connection.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                await connection.run(LONG_TRANSACTION, {"ms": ms})
                for number, sql in enumerate(statements):
                    cursor = f"DECLARE jazzmine_rows NO SCROLL CURSOR FOR {sql}"
                    await connection.run(cursor, schema=self.schema)
                    while rows := await connection.run(f"FETCH {size:d} FROM jazzmine_rows"):
                        yield number, rows
                        connection.deadline = Deadline(seconds)
                    await connection.run("CLOSE jazzmine_rows")


def _unusable(reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"pool {reason}: it must be a pool of psycopg_pool for this API, made with"
        " connection_class=jazzmine.core.postgres.Connection (in jazzmine.sync for plain"
        ' calls) and kwargs={"autocommit": True}'
    )
