"""One PostgreSQL server: a pool of connections to it, and calls that outlive their loss."""

from __future__ import annotations

import random
from collections.abc import Mapping
from time import monotonic
from typing import TypeVar

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import PoolClosed, PoolTimeout

from jazzmine._async.message_store.postgres_migration import check_rights, is_current, migrate
from jazzmine._compat.postgres_aio import (
    Combiner,
    Connections,
    Cursor,
    Cutoff,
    Together,
    connect,
    pause,
)
from jazzmine._compat.postgres_socket import Options
from jazzmine.config import PostgresConfig
from jazzmine.errors import StoreClosedError, StoreUnavailableError
from jazzmine.layouts.postgres.addresses import Address
from jazzmine.layouts.postgres.failures import (
    LostConnection,
    broke,
    is_conflict,
    is_passing,
    too_late,
    translated,
    unavailable,
)
from jazzmine.layouts.postgres.schema import bind

__all__ = ["PostgresServer"]

T = TypeVar("T")
Parameters = Mapping[str, object]


class PostgresServer:
    """Runs one statement a call, in one round trip, until it has an answer or a deadline passed.

    A call that met a broken connection is repeated on another one: all calls may be repeated.
    """

    def __init__(self, config: PostgresConfig) -> None:
        self._config = config
        self._address = Address.of(config.dsn)
        self._options = Options(
            self._address.conninfo,
            config.pool_min,
            config.pool_max,
            config.prepare,
            config.timeout,
        )
        self._connections = Connections(self._options)
        self._inherited: list[Connections] = []

    async def open(self) -> None:
        """Bring the schema up to date and open the pool."""
        deadline = monotonic() + self._config.timeout
        failure: Exception
        try:
            if await self._migrate(deadline):
                deadline = monotonic() + self._config.timeout
            await self._connections.open(max(0.001, deadline - monotonic()))
            return
        except psycopg.Error as error:
            failure = self._connections.failure or error
        # Out here the error has no context, which might hold a secret.
        raise unavailable(failure, self._address) from self._address.shown(failure)

    async def _migrate(self, deadline: float) -> bool:
        """Bring the schema up to date; return whether there was anything to do."""
        # A connection of its own says what is wrong, where the pool would go on trying.
        connection = await connect(self._options, deadline - monotonic())
        schema, timeout = self._config.schema, self._config.migration_timeout
        cutoff = Cutoff(connection, deadline - monotonic())
        try:
            was_current = await is_current(connection, schema)
            if not was_current:
                cutoff.cancel()
                # The server ends it in time, if it can be reached.
                cutoff = Cutoff(connection, timeout + self._config.timeout)
                await migrate(connection, schema, timeout)
            await check_rights(connection, schema)
        finally:
            cutoff.cancel()
            await connection.close()
        return not was_current

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()

    def moved_in(self) -> None:
        """Leave all connections to the process that this one was forked from."""
        self._inherited.append(self._connections)
        self._connections = Connections(self._options)

    async def rows(
        self, sql: str, parameters: Parameters | None = None, *, prepare: bool | None = None
    ) -> list[TupleRow]:
        """Run a query and return its rows.

        Args:
            sql: with `$schema` for the schema.
            parameters: by name.
            prepare: False plans the query for these very parameters.
        """
        return await (await self._run(sql, parameters, prepare)).fetchall()

    async def count(
        self, sql: str, parameters: Parameters, *, deadline: float | None = None
    ) -> int:
        """Run a statement and return how many rows it wrote."""
        return (await self._run(sql, parameters, None, deadline)).rowcount

    def combiner(self, together: Together[T]) -> Combiner[T]:
        """Return what has calls that find no connection free done together."""
        return Combiner(together, self._config.pool_max, self._config.timeout)

    async def _run(
        self,
        sql: str,
        parameters: Parameters | None,
        prepare: bool | None,
        deadline: float | None = None,
    ) -> Cursor:
        if deadline is None:
            deadline = monotonic() + self._config.timeout
        statement = bind(sql, self._config.schema)
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._attempt(statement, parameters, prepare, deadline)
            except psycopg.Error as error:
                failure = error
            await self._recover(failure, attempt, deadline)

    async def _attempt(
        self, sql: bytes, parameters: Parameters | None, prepare: bool | None, deadline: float
    ) -> Cursor:
        connection = await self._connections.acquire(deadline - monotonic())
        cutoff = Cutoff(connection, deadline - monotonic())
        try:
            return await connection.execute(sql, parameters, prepare=prepare, binary=True)
        except psycopg.Error as error:
            if broke(error):
                await connection.close()
            if connection.closed:
                raise LostConnection(str(error)) from error
            raise
        finally:
            cutoff.cancel()
            await self._connections.release(connection)

    async def _recover(self, error: psycopg.Error, attempt: int, deadline: float) -> None:
        """Return when the call is worth another attempt, or raise what its caller is told."""
        cause = self._connections.failure or error
        if isinstance(error, PoolClosed):
            raise StoreClosedError("this store was closed during the call") from error
        if isinstance(error, PoolTimeout) or monotonic() >= deadline:
            raise self._too_late(cause) from self._address.shown(cause)
        if isinstance(error, LostConnection):
            await self._connections.discard_dead()
        elif not is_passing(error) and not (is_conflict(error) and attempt == 1):
            raise translated(error, self._address) from self._address.shown(error)
        seconds = random.uniform(0.5, 1.0) * min(1.0, 0.01 * 2 ** (attempt - 1))
        if attempt > 1:
            if monotonic() + seconds >= deadline:
                raise self._too_late(cause) from self._address.shown(cause)
            await pause(seconds)

    def _too_late(self, cause: Exception) -> StoreUnavailableError:
        return too_late(cause, self._address, self._config.timeout)
