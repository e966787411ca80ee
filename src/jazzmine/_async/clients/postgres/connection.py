"""Open connections to one of several PostgreSQL servers, each with a lease."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from time import monotonic
from typing import Any

import psycopg
from psycopg import AsyncRawCursor, generators, waiting
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper

from jazzmine._compat.async_postgres import DeadlineConnection, as_pool_worker, result_within
from jazzmine.backends.postgres import leases
from jazzmine.backends.postgres.dsn import Address, Endpoint
from jazzmine.backends.postgres.errors import TimedOut
from jazzmine.backends.postgres.instrumentation import instrument
from jazzmine.backends.postgres.schema import Query, bind
from jazzmine.backends.postgres.sockets import TICK, limited, resolution
from jazzmine.config import PostgresConfig
from jazzmine.deadline import Deadline, backoff

__all__ = ["Connection", "Connector"]

# How long, in s, a server that could not be reached is tried after the others.
_AVOIDED = 60.0
# The pauses of a pool between two attempts to connect, in s.
_PAUSES = (0.1, 1.0)


class Connection(DeadlineConnection):
    """A connection that may have a lease.

    A call on it that is cancelled, or meets the deadline, ends at once and leaves it ACTIVE.

    Attributes:
        lease: the id of its lease.
        calls: how many writes it has made.
        refusal: why it has no lease, and cannot write; None if it has one.
        proved_at: when it was last known to work, by the monotonic clock.
        connector: what opened it.
        endpoint: the server.
    """

    lease: int
    calls = 0
    refusal: psycopg.Error | None = None
    proved_at: float
    connector: Connector
    endpoint: Endpoint
    _cursor: Any = None

    @property
    def is_suspect(self) -> bool:
        """Whether another connection was lost since this one was last known to work."""
        return self.proved_at <= self.connector.suspected_at

    @property
    def is_condemned(self) -> bool:
        """Whether another connection, suspect for as long as this one, turned out to be lost."""
        return self.proved_at <= self.connector.condemned_at

    @classmethod
    async def connect(  # type: ignore[override]  # the pool calls it with its `kwargs` alone
        cls, conninfo: str = "", *, connector: Connector
    ) -> Connection:
        """Connect to a server that a connector chooses, and make the lease."""
        return await as_pool_worker(connector.connect_with_lease())

    @classmethod
    async def connect_within(cls, seconds: float, conninfo: str) -> Connection:
        """Connect to one server.

        Raises:
            psycopg.Error: the server refused it, or was not reached within so many seconds.
        """
        # psycopg's connect() takes 2 s at least to time out, and whole seconds.
        gen = limited(generators.connect(conninfo), Deadline(seconds))
        try:
            connection = cls(await waiting.wait_conn_async(gen, interval=TICK))
            connection.cursor_factory = AsyncRawCursor
        except TimedOut:
            text = f"no connection within {seconds:.3g} s"
            raise psycopg.errors.ConnectionTimeout(text) from None
        finally:
            gen.close()  # and with it the socket, if this was interrupted
        await connection.set_autocommit(True)
        return connection

    async def run(
        self,
        query: Query,
        parameters: Mapping[str, object] | None = None,
        *,
        prepare: bool | None = None,
    ) -> list[Any]:
        """Run a statement, and return its rows.

        Args:
            query: the statement.
            parameters: by name.
            prepare: False plans it for these very parameters.

        Raises:
            psycopg.Error: it failed, or had no reply before the deadline.
        """
        cursor = self._cursor
        if cursor is None:
            cursor = self._cursor = self.cursor()
        values = list(map(parameters.__getitem__, query.names)) if parameters else None
        # A text without parameters may have several statements, if it is sent as it is.
        await cursor.execute(query.text, values, prepare=prepare, binary=values is not None)
        rows = await cursor.fetchall() if cursor.pgresult.nfields else []
        cursor._reset()  # a large result is not kept
        return rows


class Connector:
    """Opens connections to the servers that a DSN names.

    Args:
        has_leases: whether its connections have leases.

    Attributes:
        failure: the error of the latest attempt to open one, or None.
        pauses: those of the pool between its attempts, in s; anew after one succeeded.
        store: the id of the store in the leases of its connections.
        suspected_at: connections that were last known to work before then may be lost.
        condemned_at: connections that were last known to work before then are lost.
    """

    def __init__(self, config: PostgresConfig, address: Address, has_leases: bool = True) -> None:
        self.failure: Exception | None = None
        self.pauses: Iterator[float] = backoff(*_PAUSES)
        self.suspected_at: float = 0.0
        self.condemned_at: float = 0.0
        self._config = config
        self._address = address
        self._avoided: dict[Endpoint, float] = {}
        self._make = bind(leases.MAKE if has_leases else leases.SETTINGS, config.schema)
        self.store: int = leases.new_id()

    async def connect(self) -> Connection:
        """Connect to the first server that can be reached.

        This takes half of a call's time at most, so that a call can try it once more.

        Raises:
            psycopg.Error: none can be reached, or the last one refused the connection.
        """
        endpoints = sorted(self._address.attempts(), key=self._is_avoided)
        seconds = self._config.timeout / (len(endpoints) + 1)
        seconds = min(seconds, self._address.connect_timeout or math.inf)
        for endpoint in endpoints:
            try:
                connection = await self._connect_to(endpoint, seconds)
            except (psycopg.Error, OSError) as error:
                self.avoid(endpoint)
                failure = error
            else:
                self._avoided.pop(endpoint, None)
                self.failure = None
                return connection
        if isinstance(failure, psycopg.Error):
            self.failure = failure
        else:
            text = f"failed to resolve host {endpoint.host!r}: {failure}"
            self.failure = psycopg.OperationalError(text)
        raise self.failure

    async def connect_with_lease(self) -> Connection:
        """Connect, and make the lease of the connection.

        Raises:
            psycopg.Error: the connection could not be opened, or was lost at once.
        """
        connection = await self.connect()
        try:
            await self._make_lease(connection)
        except BaseException as error:
            await connection.close()
            if isinstance(error, psycopg.Error):
                self.failure = error
            raise
        self.pauses = backoff(*_PAUSES)
        self.failure = None
        return connection

    def avoid(self, endpoint: Endpoint) -> None:
        """Try a server after the others for the next minute."""
        self._avoided[endpoint] = monotonic() + _AVOIDED

    def _is_avoided(self, endpoint: Endpoint) -> bool:
        return self._avoided.get(endpoint, 0.0) > monotonic()

    async def _connect_to(self, endpoint: Endpoint, seconds: float) -> Connection:
        deadline = Deadline(seconds)
        addresses = [endpoint.hostaddr]
        if not endpoint.is_resolved:
            addresses = await result_within(seconds, resolution(endpoint.host, endpoint.port))
        for left, hostaddr in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                share = deadline.remaining() / left
                return await self._connect_at(endpoint, hostaddr, share)
            except psycopg.Error as error:
                failure = error
        raise failure

    async def _connect_at(self, endpoint: Endpoint, hostaddr: str, seconds: float) -> Connection:
        conninfo = self._address.conninfo_of(endpoint, hostaddr)
        connection = await Connection.connect_within(seconds, conninfo)
        connection.prepare_threshold = 0 if self._config.prepare else None
        # psycopg picks the type of an integer by its size, and each combination of types would be
        # prepared anew; ours are all 64 bits wide.
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        instrument(connection)
        connection.connector, connection.endpoint = self, endpoint
        connection.proved_at = monotonic()
        return connection

    async def _make_lease(self, connection: Connection) -> None:
        connection.lease = leases.new_id()
        connection.deadline = Deadline(self._config.timeout / 2)
        parameters = {
            "lease": connection.lease,
            "store": self.store,
            "timeout": str(math.ceil(min(self._config.timeout * 1000, 2**31 - 1))),
            "interval": "500",
            "pid": connection.info.backend_pid,
        }
        try:
            try:
                await connection.run(self._make, parameters, prepare=False)
            except psycopg.errors.InvalidParameterValue:
                # The operating system of the server lacks what this setting needs.
                parameters["interval"] = "0"
                await connection.run(self._make, parameters, prepare=False)
        except psycopg.Error as error:
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                raise
            # The connection can be used for reads: the server is a standby, or the role may only
            # read.
            if isinstance(error, psycopg.errors.FeatureNotSupported):
                error = psycopg.errors.ReadOnlySqlTransaction(str(error))
            connection.refusal = error
