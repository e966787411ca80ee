"""Runs the statements of a store on PostgreSQL, each until it has an answer or its time is over."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg_pool import PoolClosed, PoolTimeout

from jazzmine._async.message_store.postgres_connection import Connection, Connector
from jazzmine._async.message_store.postgres_migration import check_rights, is_current, migrate
from jazzmine._async.message_store.postgres_pool import PostgresPool
from jazzmine._compat.async_background import sleep
from jazzmine._compat.async_microbatch import MicroBatcher, RunBatch
from jazzmine.backends.postgres.dsn import Address
from jazzmine.backends.postgres.errors import (
    LostConnection,
    deadline_exceeded,
    is_conflict,
    is_disconnect,
    is_transient,
    translated,
    unavailable,
)
from jazzmine.backends.postgres.leases import (
    DELETE_ALL,
    RETIRE,
    WRITES_OF_AN_ID,
    counted,
    fenced,
    is_lease_gone,
    new_id,
)
from jazzmine.backends.postgres.schema import bind
from jazzmine.config import PostgresConfig
from jazzmine.deadline import Deadline
from jazzmine.errors import StoreClosedError, StoreUnavailableError

__all__ = ["PostgresClient"]

T = TypeVar("T")
Parameters = Mapping[str, object]

# How long closing waits until no write that was given up can take effect any more, in s.
_CLOSING_SECONDS = 1.0

logger: logging.Logger = logging.getLogger("jazzmine")


class _Write:
    """The attempts at one write.

    Attributes:
        doubtful: leases, and how many writes each counts if an attempt took effect.
    """

    def __init__(self) -> None:
        self.doubtful: dict[int, int] = {}

    def outcome(self, leases: list[TupleRow]) -> TupleRow | None:
        """Return what an attempt wrote, or None if none took effect.

        Args:
            leases: as they are since they were retired.
        """
        for lease, calls, written in leases:
            if self.doubtful.get(lease) == calls:
                return (written,)
        return None


class _Statement(NamedTuple):
    sql: bytes
    parameters: Parameters
    prepare: bool | None = None
    has_rows: bool = True
    write: _Write | None = None


class PostgresClient:
    """Runs one statement a call, in one round trip, until it has an answer or a deadline passed.

    A call that met a broken connection is repeated on another one: all calls may be repeated. A
    write that was given up cannot take effect once a later call has returned: each write holds the
    lease of its connection, and later calls delete that lease first.
    """

    def __init__(self, config: PostgresConfig) -> None:
        self._config = config
        self._address = Address.of(config.dsn, config.timeout)
        self._inherited: list[PostgresPool] = []
        self._start()

    def _start(self) -> None:
        self._connector = Connector(self._config, self._address)
        self._pool = PostgresPool(self._config, self._connector)
        self._doubtful: set[int] = set()  # the leases of writes that may still take effect

    async def open(self) -> None:
        """Bring the schema up to date and open the pool.

        Raises:
            ConfigurationError: the schema is not one that this library can use.
            StoreUnavailableError: the server refused the connection, or gave no answer.
        """
        deadline = Deadline(self._config.timeout)
        failure: Exception
        try:
            if await self._migrate(deadline):
                deadline = Deadline(self._config.timeout)
            await self._pool.open(max(0.001, deadline.remaining()))
            return
        except psycopg.Error as error:
            failure = self._connector.failure or error
        # Out here the error has no context, which might hold a secret.
        raise unavailable(failure, self._address) from self._address.redacted(failure)

    async def _migrate(self, deadline: Deadline) -> bool:
        """Bring the schema up to date; return whether there was anything to do."""
        # A connection of its own says what is wrong, where the pool would go on trying.
        connection = await self._connect(deadline)
        schema, timeout = self._config.schema, self._config.migration_timeout
        connection.deadline = deadline
        try:
            was_current = await is_current(connection, schema)
            if not was_current:
                # The server ends it in time, if it can be reached.
                connection.deadline = Deadline(timeout + self._config.timeout)
                await migrate(connection, schema, timeout)
            await check_rights(connection, schema)
        finally:
            await connection.close()
        return not was_current

    async def _connect(self, deadline: Deadline) -> Connection:
        while True:
            try:
                return await self._connector.connect()
            except psycopg.errors.ConnectionTimeout:
                if deadline.expired:
                    raise

    async def close(self) -> None:
        """Fence what was given up, and close all connections."""
        await self._pool.settle()
        if self._pool.is_open and self._connector.failure is None:
            try:
                await self._delete_leases()
            except psycopg.Error as error:
                logger.debug("leases are left to be swept: %s", type(error).__name__)
        await self._pool.close()

    def after_fork(self) -> None:
        """Leave all connections to the process that this one was forked from."""
        self._inherited.append(self._pool)
        self._start()

    def batcher(self, run_batch: RunBatch[T]) -> MicroBatcher[T]:
        """Return what sends items together for which no connection is free."""
        return MicroBatcher(run_batch, self._config.pool_max, self._expired)

    def deadline(self) -> Deadline:
        """Return the deadline of a call that begins now."""
        return Deadline(self._config.timeout)

    async def rows(
        self, sql: str, parameters: Parameters | None = None, *, prepare: bool | None = None
    ) -> list[TupleRow]:
        """Run a query and return its rows.

        Args:
            sql: with `$schema` for the schema.
            parameters: by name.
            prepare: False plans the query for these very parameters.

        Raises:
            JazzmineError: the query failed, or had no answer within the call's time.
        """
        statement = _Statement(self._bind(sql), parameters or {}, prepare)
        return await self._run(statement, self.deadline())

    async def write(
        self, sql: str, parameters: Parameters, *, deadline: Deadline | None = None
    ) -> None:
        """Run a write.

        Raises:
            JazzmineError: the write failed, or had no answer before the deadline.
        """
        statement = _Statement(self._bind(fenced(sql)), parameters, has_rows=False, write=_Write())
        await self._run(statement, deadline or self.deadline())

    async def count(self, sql: str, parameters: Parameters) -> int:
        """Run a write that has no parts, and return how many rows it wrote.

        Raises:
            JazzmineError: the write failed, or had no answer within the call's time.
        """
        statement = _Statement(self._bind(counted(sql)), parameters, write=_Write())
        rows = await self._run(statement, self.deadline())
        return int(rows[0][0])

    def _bind(self, sql: str) -> bytes:
        return bind(sql, self._config.schema)

    async def _run(self, statement: _Statement, deadline: Deadline) -> list[TupleRow]:
        attempt = 0
        while True:
            attempt += 1
            try:
                connection = await self._pool.acquire(deadline)
                return await self._run_on(connection, statement, deadline)
            except psycopg.Error as error:
                failure = error
            await self._recover(failure, attempt, deadline)

    async def _run_on(
        self, connection: Connection, statement: _Statement, deadline: Deadline
    ) -> list[TupleRow]:
        connection.deadline = deadline
        try:
            if statement.write is None:
                rows = await self._read(connection, statement)
            else:
                rows = await self._write(connection, statement, statement.write)
        except BaseException as error:
            is_idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
            if is_idle and not is_disconnect(error):
                await self._pool.release(connection)
                raise
            self._pool.discard(connection, error)
            if isinstance(error, psycopg.Error):
                raise LostConnection(str(error)) from error
            raise
        await self._pool.release(connection)
        return rows

    async def _read(self, connection: Connection, statement: _Statement) -> list[TupleRow]:
        if self._doubtful and connection.refusal is None:
            await self._retire(connection, self._doubtful.copy())
        return await self._execute(connection, statement, statement.parameters)

    async def _write(
        self, connection: Connection, statement: _Statement, write: _Write
    ) -> list[TupleRow]:
        if connection.refusal is not None:
            raise connection.refusal
        if self._doubtful or write.doubtful:
            leases = await self._retire(connection, self._doubtful | write.doubtful.keys())
            if (outcome := write.outcome(leases)) is not None:
                return [outcome]
        lease, calls = connection.lease, connection.calls + 1
        next_lease = lease if calls % WRITES_OF_AN_ID else new_id()
        fence = {"lease": lease, "next_lease": next_lease, "calls": calls}
        try:
            rows = await self._execute(connection, statement, {**statement.parameters, **fence})
        except BaseException as error:
            if _is_unknown(connection, error):
                write.doubtful.update({lease: calls, next_lease: calls})
                self._doubtful.update(write.doubtful)
            raise
        connection.lease, connection.calls = next_lease, calls
        return rows

    async def _execute(
        self, connection: Connection, statement: _Statement, parameters: Parameters
    ) -> list[TupleRow]:
        cursor = await connection.execute(
            statement.sql, parameters, prepare=statement.prepare, binary=True
        )
        return await cursor.fetchall() if statement.has_rows else []

    async def _retire(self, connection: Connection, leases: set[int]) -> list[TupleRow]:
        # This waits for those that are about to be committed.
        statement = _Statement(self._bind(RETIRE), {"leases": list(leases)}, prepare=False)
        rows = await self._execute(connection, statement, statement.parameters)
        self._doubtful -= leases
        return rows

    async def _delete_leases(self) -> None:
        deadline = Deadline(min(_CLOSING_SECONDS, self._config.timeout))
        connection = await self._pool.acquire(deadline)
        connection.deadline = deadline
        try:
            parameters = {"store": self._connector.store}
            await connection.execute(self._bind(DELETE_ALL), parameters, prepare=False)
        except BaseException as error:
            self._pool.discard(connection, error)
            raise
        await self._pool.release(connection)

    async def _recover(self, error: psycopg.Error, attempt: int, deadline: Deadline) -> None:
        """Return when the call is worth another attempt, or raise what its caller is told."""
        cause = self._connector.failure or error
        if isinstance(error, PoolClosed):
            raise StoreClosedError("this store was closed during the call") from error
        if isinstance(error, PoolTimeout) or deadline.expired:
            raise self._exceeded(cause) from self._address.redacted(cause)
        if not (
            isinstance(error, LostConnection)
            or is_transient(error)
            or (is_conflict(error) and attempt == 1)
        ):
            raise translated(error, self._address) from self._address.redacted(error)
        if attempt > 1:
            seconds = random.uniform(0.5, 1.0) * min(1.0, 0.01 * 2 ** (attempt - 1))
            if seconds >= deadline.remaining():
                raise self._exceeded(cause) from self._address.redacted(cause)
            await sleep(seconds)

    def _exceeded(self, cause: Exception) -> StoreUnavailableError:
        return deadline_exceeded(cause, self._address, self._config.timeout)

    def _expired(self) -> StoreUnavailableError:
        return self._exceeded(PoolTimeout("no connection was free"))


def _is_unknown(connection: Connection, error: BaseException) -> bool:
    """Whether a write that failed so may have taken effect, or may do so later."""
    is_idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
    return not is_idle and not is_lease_gone(error)
