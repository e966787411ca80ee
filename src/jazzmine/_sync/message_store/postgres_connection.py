"""Connections to PostgreSQL: to which of several servers, within which time, with which lease."""

from __future__ import annotations

import math
from time import monotonic
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from jazzmine._compat.sync_postgres import (
    DriverConnection,
    as_pool_worker,
    connect_within,
    resolve_within,
)
from jazzmine.backends.postgres import leases
from jazzmine.backends.postgres.dsn import Address, Endpoint
from jazzmine.backends.postgres.schema import bind
from jazzmine.backends.postgres.sockets import ADAPTERS
from jazzmine.config import PostgresConfig
from jazzmine.deadline import Deadline

__all__ = ["Connection", "Connector"]

# For how long a server that could not be reached is tried after the others, in s.
_AVOIDED = 60.0


class Connection(DriverConnection):
    """A connection that may have a lease.

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

    @property
    def is_suspect(self) -> bool:
        """Whether another connection was lost since this one was last known to work."""
        return self.proved_at <= self.connector.suspected_at

    @property
    def is_condemned(self) -> bool:
        """Whether one that was suspect with this one turned out to be lost."""
        return self.proved_at <= self.connector.condemned_at

    @classmethod
    def connect(  # type: ignore[override]
        cls, conninfo: str = "", *, connector: Connector | None = None, **options: Any
    ) -> Connection:
        """Connect; with a connector, by its rules."""
        if connector is None:
            return super().connect(conninfo, **options)
        return as_pool_worker(connector.connect_with_lease())


class Connector:
    """Opens connections to the servers that a DSN names.

    Attributes:
        failure: why the latest attempt to open one failed, or None.
        failures: how many attempts have failed since one succeeded.
        store: what all leases of its connections have in common.
        suspected_at: connections that were not known to work since then may be lost.
        condemned_at: those that were not known to work since then are lost.
    """

    def __init__(self, config: PostgresConfig, address: Address) -> None:
        self.failure: Exception | None = None
        self.failures = 0
        self.suspected_at = self.condemned_at = 0.0
        self._config = config
        self._address = address
        self._avoided: dict[Endpoint, float] = {}
        self.store = leases.new_id()

    def connect(self) -> Connection:
        """Connect to the first server that can be reached.

        This takes a part of a call's time at most, so that there is enough to try it once more.

        Raises:
            psycopg.Error: none can be reached, or the last one refused the connection.
        """
        endpoints = sorted(self._address.attempts(), key=self._is_avoided)
        seconds = self._config.timeout / (len(endpoints) + 1)
        seconds = min(seconds, self._address.connect_timeout or math.inf)
        for endpoint in endpoints:
            try:
                connection = self._connect_to(endpoint, seconds)
            except (psycopg.Error, OSError) as error:
                self.avoid(endpoint)
                failure = error
            else:
                self._avoided.pop(endpoint, None)
                self.failure = None
                return connection
        self.failures += 1
        if isinstance(failure, psycopg.Error):
            self.failure = failure
        else:
            text = f"failed to resolve host {endpoint.host!r}: {failure}"
            self.failure = psycopg.OperationalError(text)
        raise self.failure

    def connect_with_lease(self) -> Connection:
        """Connect, and make the lease of the connection.

        Raises:
            psycopg.Error: the connection could not be opened, or was lost at once.
        """
        connection = self.connect()
        try:
            self._make_lease(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, psycopg.Error):
                self.failures += 1
                self.failure = error
            raise
        self.failures = 0
        self.failure = None
        return connection

    def avoid(self, endpoint: Endpoint) -> None:
        """Try a server after the others for a while."""
        self._avoided[endpoint] = monotonic() + _AVOIDED

    def _is_avoided(self, endpoint: Endpoint) -> bool:
        return self._avoided.get(endpoint, 0.0) > monotonic()

    def _connect_to(self, endpoint: Endpoint, seconds: float) -> Connection:
        deadline = Deadline(seconds)
        addresses = [endpoint.hostaddr]
        if not endpoint.is_resolved:
            addresses = resolve_within(seconds, endpoint.host, endpoint.port)
        for left, hostaddr in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                share = deadline.remaining() / left
                return self._connect_at(endpoint, hostaddr, share)
            except psycopg.Error as error:
                failure = error
        raise failure

    def _connect_at(self, endpoint: Endpoint, hostaddr: str, seconds: float) -> Connection:
        conninfo = self._address.conninfo_of(endpoint, hostaddr)
        options = {
            "autocommit": True,
            "context": ADAPTERS,
            "prepare_threshold": 0 if self._config.prepare else None,
            # Whole seconds, and never fewer than two: this ends attempts that were abandoned.
            "connect_timeout": max(2, math.ceil(seconds)),
        }
        connection = connect_within(Connection, seconds, conninfo, options)
        connection.connector, connection.endpoint = self, endpoint
        connection.proved_at = monotonic()
        return connection

    def _make_lease(self, connection: Connection) -> None:
        connection.lease = leases.new_id()
        connection.deadline = Deadline(self._config.timeout / 2)
        parameters = {
            "lease": connection.lease,
            "store": self.store,
            "timeout": str(math.ceil(min(self._config.timeout * 1000, 2**31 - 1))),
            "pid": connection.info.backend_pid,
        }
        statement = bind(leases.MAKE, self._config.schema)
        try:
            try:
                connection.execute(statement, parameters, prepare=False)
            except psycopg.errors.InvalidParameterValue:
                # The server's system lacks what a setting needs.
                parameters["pid"] = 0
                connection.execute(statement, parameters, prepare=False)
        except psycopg.Error as error:
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                raise
            # It can read, at least: the server is a standby, or the role may not write.
            if isinstance(error, psycopg.errors.FeatureNotSupported):
                error = psycopg.errors.ReadOnlySqlTransaction(str(error))
            connection.refusal = error
