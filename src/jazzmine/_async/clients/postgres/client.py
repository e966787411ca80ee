"""Run the statements of a store on PostgreSQL, each until its reply or its deadline."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from typing import TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg_pool import PoolClosed, PoolTimeout

from jazzmine._async.clients.postgres.connection import Connection, Connector
from jazzmine._async.clients.postgres.fence import Fence
from jazzmine._async.clients.postgres.migration import (
    bring_up_to_date,
    change_search,
    lacks_functions,
    pending_migrations,
)
from jazzmine._async.clients.postgres.pool import PostgresPool
from jazzmine._async.keyed_locks import KeyedLocks
from jazzmine._compat.async_concurrency import Work, sleep
from jazzmine.backends.postgres.attempts import Parameters, Read, Write
from jazzmine.backends.postgres.dsn import Address
from jazzmine.backends.postgres.errors import (
    LostConnection,
    deadline_exceeded,
    is_conflict,
    is_disconnect,
    is_transient,
    translated,
)
from jazzmine.backends.postgres.leases import DELETE_ALL, ERASE_RESULTS
from jazzmine.backends.postgres.schema import (
    DECLARE_ROWS,
    LONG_TRANSACTION,
    READ_AT_ONE_MOMENT,
    Component,
    bind,
    in_ms,
)
from jazzmine.config import PostgresConfig
from jazzmine.deadline import Deadline, backoff, begin_call, call_deadline
from jazzmine.errors import StoreClosedError, StoreUnavailableError

__all__ = ["PostgresClient"]

T = TypeVar("T")

# The longest time, in s, that close() takes to delete the leases of the store.
_CLOSING_SECONDS = 1.0
# How long an erasure pauses, in s, while a lease that it has to clear is in use.
_ERASURE_PAUSE = 0.01
# The pauses, in s, between the attempts at a call after the second one.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0

logger: logging.Logger = logging.getLogger("jazzmine")


class PostgresClient:
    """Runs one statement for each call, in one round trip, until its reply or its deadline.

    A call whose connection is lost is repeated on another one: all calls may be repeated. A write
    whose call ended without a reply cannot take effect after a later call has returned: each write
    needs the lease of its connection, and later calls delete that lease first.

    Several stores may use it: the first one opens it, and the last one closes it.

    Args:
        config: where, and for how long.
        components: the tables of these stores.
    """

    def __init__(self, config: PostgresConfig, *components: Component) -> None:
        self._config = config
        self._schema, self._timeout = config.schema, config.timeout
        self._components = components
        self._has_leases = any(component.has_leases for component in components)
        self._users = 0
        self._address = Address.of(config.dsn, config.timeout, config.url_options())
        self._pools_of_parents: list[PostgresPool] = []
        self._start()

    def _start(self) -> None:
        self._connector = Connector(self._config, self._address, self._has_leases)
        self._pool = PostgresPool(self._config, self._connector)
        # A call that waits for others holds no connection. Writes to one locked conversation do not
        # take all connections, and writes to several leave one for reads.
        pool_max = self._config.pool_max
        self._places: KeyedLocks[object] = KeyedLocks(pool_max)
        self._writes: KeyedLocks[object] = KeyedLocks(max(1, pool_max - 1))
        self._lines: KeyedLocks[object] = KeyedLocks(max(1, pool_max // 2))
        self._fence = Fence(self._schema)

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
            if await self._beside(self._bring_up_to_date):
                begin_call()
            await self._translating(self._open_pool)
        except BaseException:
            await self.close()
            raise

    async def _bring_up_to_date(self, connection: Connection) -> bool:
        is_changed = False
        for component in self._components:
            is_changed |= await bring_up_to_date(connection, self._config, component)
        return is_changed

    async def _open_pool(self) -> None:
        await self._pool.open(max(0.001, call_deadline(self._timeout).remaining()))

    async def pending(self) -> list[str]:
        """Return what `open` would change in the schema; nothing is changed.

        Raises:
            ConfigurationError: the schema is not one that this library can use.
            StoreUnavailableError: the server refused the connection, or gave no answer.
        """
        return await self._beside(self._pending)

    async def _pending(self, connection: Connection) -> list[str]:
        schema = self._schema
        pending: list[str] = []
        for component in self._components:
            steps = await pending_migrations(connection, schema, component)
            if not steps and await lacks_functions(connection, schema, component):
                pending.append(f"make the functions of schema {schema!r} anew")
            pending += [
                f"apply {step.version:04} {step.name} to schema {schema!r}" for step in steps
            ]
        return pending

    async def change_search(self, language: str | None) -> None:
        """Add the index of words, make it anew for another language, or remove it.

        Raises:
            ConfigurationError: the role may not change the schema.
            StoreUnavailableError: the server went away, or `migration_timeout` has passed.
        """
        (component,) = (component for component in self._components if component.has_messages)
        await self._beside(
            lambda connection: change_search(connection, self._config, component, language)
        )
        begin_call()

    async def _beside(self, work: Work[T]) -> T:
        """Call `work` with a connection that is not the pool's, and return its result.

        If it cannot be opened, this raises the server's error; the pool would only log it.
        """

        async def connected() -> T:
            connection = await self.connect(call_deadline(self._timeout))
            try:
                return await work(connection)
            finally:
                await connection.close()

        return await self._translating(connected)

    async def _translating(self, work: Work[T]) -> T:
        """Call `work`; raise our error for an error of the driver."""
        try:
            return await work()
        except psycopg.Error as error:
            failure = self._connector.failure or error
        # Out here the error has no context, which might hold a secret.
        raise self._translated(failure)

    async def connect(self, deadline: Deadline) -> Connection:
        """Open a connection beside those of the pool, with a deadline for what is sent over it.

        Raises:
            psycopg.Error: the server refused it, or could not be reached.
        """
        while True:
            try:
                connection = await self._connector.connect()
            except psycopg.errors.ConnectionTimeout:
                if deadline.expired:
                    raise
            else:
                connection.deadline = deadline
                return connection

    async def close(self) -> None:
        """Delete the leases, so that no write takes effect any more, and close all connections.

        Nothing is done while another store uses them.
        """
        self._users = max(0, self._users - 1)
        if self._users:
            return
        await self._pool.settle()
        failed = self._connector.failure is not None
        if self._has_leases and self._pool.is_open and not failed:
            try:
                await self._delete_leases()
            except psycopg.Error as error:
                logger.debug("leases are left to be swept: %s", type(error).__name__)
        await self._pool.close()

    def after_fork(self) -> None:
        """Open other connections in a forked process; the parent keeps its own."""
        self._pools_of_parents.append(self._pool)
        self._start()

    async def rows(
        self,
        sql: str,
        parameters: Parameters | None = None,
        *,
        prepare: bool | None = None,
        deadline: Deadline | None = None,
    ) -> list[TupleRow]:
        """Run a query and return its rows.

        Args:
            sql: with `$schema` for the schema.
            parameters: by name.
            prepare: False plans the query for these very parameters.
            deadline: by default that of the call.

        Raises:
            JazzmineError: the query failed, or had no reply within `timeout`.
        """
        read = Read(bind(sql, self._schema), parameters or {}, prepare)
        deadline = deadline or call_deadline(self._timeout)
        return await self._run(self._fence.read, read, deadline)

    async def stream(
        self, sql: str, size: int, parameters: Parameters | None = None
    ) -> AsyncIterator[list[TupleRow]]:
        """Yield the rows of a query as they all were at one moment, on a connection of its own.

        Before the first rows the server may sort all of them, within `migration_timeout`.

        Args:
            sql: with `$schema` for the schema.
            size: how many rows at a time, at the most.
            parameters: by name.

        Raises:
            JazzmineError: the connection failed or was lost; there is no second attempt.
        """
        seconds = self._config.migration_timeout
        fetch = bind(f"FETCH FORWARD {size:d} FROM jazzmine_rows")
        try:
            connection = await self.connect(call_deadline(self._timeout))
            try:
                connection.deadline = Deadline(seconds)
                async with connection.transaction():
                    await connection.run(bind(READ_AT_ONE_MOMENT))
                    await connection.run(bind(LONG_TRANSACTION), {"ms": str(in_ms(seconds))})
                    await connection.run(
                        bind(f"{DECLARE_ROWS} {sql}", self._schema), parameters or {}
                    )
                    while rows := await connection.run(fetch):
                        yield rows
                        connection.deadline = Deadline(seconds)
            finally:
                await connection.close()
        except psycopg.Error as error:
            failure = error
        else:
            return
        raise self._translated(failure)

    async def write(
        self,
        sql: str,
        parameters: Parameters,
        *,
        line: str = "",
        is_repeatable: bool = True,
    ) -> str:
        """Run a write, and return its answer.

        Args:
            sql: a statement that calls a function of the schema.
            parameters: by name.
            line: the id of the conversation: a call waits outside of the pool for others that
                write to the same one, which may be locked. Those that do not know which one it is
                have one line.
            is_repeatable: whether it has the same answer if it is sent again although it took
                effect; a server that was restarted no longer knows whether it did.

        Raises:
            JazzmineError: the write failed, or had no reply before the deadline.
        """
        write = Write(bind(sql, self._schema), parameters, is_repeatable, [])
        deadline, owner = call_deadline(self._timeout), object()
        try:
            for places, key in ((self._lines, line), (self._writes, "")):
                if not await places.acquire(key, owner, deadline.remaining()):
                    raise self._expired()
            return await self._run(self._fence.write, write, deadline)
        finally:
            self._writes.release("", owner)
            self._lines.release(line, owner)

    async def erase_results(self, user: str) -> None:
        """Delete the answers in leases that may contain a user's id or text.

        Raises:
            JazzmineError: they were not deleted within `timeout`.
        """
        while (await self.rows(ERASE_RESULTS, {"user": user}))[0][0]:
            await sleep(_ERASURE_PAUSE)

    async def _run(self, send: Work[T], statement: Read | Write, deadline: Deadline) -> T:
        """Run a statement until its reply or the deadline, on one connection after another.

        Args:
            send: runs it on a connection.
            statement: the statement.
            deadline: when the call ends.
        """
        pauses: Iterator[float] | None = None
        owner = object()
        try:
            if not await self._places.acquire("", owner, deadline.remaining()):
                raise self._expired()
            while True:
                try:
                    connection = await self._pool.acquire(deadline)
                except psycopg.Error as error:
                    failure = error
                else:
                    connection.deadline = deadline
                    try:
                        result: T = await send(connection, statement)
                    except BaseException as error:
                        failure = await self._give_back(connection, error)
                    else:
                        await self._pool.release(connection)
                        return result
                await self._recover(failure, pauses, deadline)
                pauses = pauses or backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        finally:
            self._places.release("", owner)

    async def _give_back(self, connection: Connection, error: BaseException) -> psycopg.Error:
        """Return what became of a statement that raised an error, and give its connection back.

        Raises:
            BaseException: the error, if it is not the driver's.
        """
        is_idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
        is_kept = is_idle and not is_disconnect(error)
        if is_kept:
            await self._pool.release(connection)
        else:
            self._pool.discard(connection, error)
        if not isinstance(error, psycopg.Error):
            raise error
        if is_kept:
            return error
        lost = LostConnection(str(error))
        lost.__cause__ = error
        return lost

    async def _delete_leases(self) -> None:
        deadline = Deadline(min(_CLOSING_SECONDS, self._timeout))
        connection = await self._pool.acquire(deadline)
        connection.deadline = deadline
        try:
            parameters = {"store": self._connector.store}
            await connection.run(bind(DELETE_ALL, self._schema), parameters, prepare=False)
        except BaseException as error:
            self._pool.discard(connection, error)
            raise
        await self._pool.release(connection)

    async def _recover(
        self, error: psycopg.Error, pauses: Iterator[float] | None, deadline: Deadline
    ) -> None:
        """Wait before another attempt at a call, or raise the error of the call.

        Args:
            error: that of an attempt.
            pauses: None after the first attempt: the second one is made at once.
            deadline: when the call ends.
        """
        cause = self._connector.failure or error
        if isinstance(error, PoolClosed):
            raise StoreClosedError("this store was closed during the call") from error
        if isinstance(error, PoolTimeout) or deadline.expired:
            raise self._exceeded(cause) from self._address.redacted(cause)
        if not (
            isinstance(error, LostConnection)
            or is_transient(error)
            or (is_conflict(error) and pauses is None)
        ):
            raise self._translated(error)
        if pauses is not None:
            seconds = next(pauses)
            if seconds >= deadline.remaining():
                raise self._exceeded(cause) from self._address.redacted(cause)
            await sleep(seconds)

    def _translated(self, error: Exception) -> Exception:
        """Return our error for an error of the driver, which is its cause."""
        failure = translated(error, self._address)
        failure.__cause__ = self._address.redacted(error)
        return failure

    def _exceeded(self, cause: Exception) -> StoreUnavailableError:
        return deadline_exceeded(cause, self._address, self._timeout)

    def _expired(self) -> StoreUnavailableError:
        return self._exceeded(PoolTimeout("other calls hold the connections or the conversation"))
