"""Checks of a PostgreSQL set-up, through connections of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg

from jazzmine._sync.clients.postgres.connection import Connection, Connector
from jazzmine._sync.clients.postgres.migration import (
    check_rights,
    lacks_functions,
    lagging_sequences,
    pending_migrations,
)
from jazzmine.backends.clock import compared
from jazzmine.backends.postgres import doctor
from jazzmine.backends.postgres.dsn import Address
from jazzmine.backends.postgres.errors import unavailable
from jazzmine.backends.postgres.schema import ITEM_TABLES, MESSAGE_TABLES, Component, bind
from jazzmine.config import PostgresConfig
from jazzmine.deadline import Deadline
from jazzmine.errors import ConfigurationError
from jazzmine.findings import Finding, failed, fine, warning

__all__ = ["check_item_sequences", "check_postgres"]

_SECONDS_A_HOST = 5.0


def check_postgres(config: PostgresConfig) -> Iterator[Finding]:
    """Yield what is found.

    Raises:
        StoreUnavailableError: no server can be reached, or it refuses the connection.
    """
    yield from _check_hosts(config, Address.of(config.dsn, config.timeout, config.url_options()))
    with _connected(config) as connection:
        yield from _check_database(config, connection)


def check_item_sequences(config: PostgresConfig) -> Iterator[Finding]:
    """Yield whether the revisions of a long-term memory would be given again.

    Raises:
        StoreUnavailableError: as in `check_postgres`.
    """
    with _connected(config) as connection:
        yield from _check_sequences(config.schema, connection, ITEM_TABLES)


@contextmanager
def _connected(config: PostgresConfig) -> Iterator[Connection]:
    address = Address.of(config.dsn, config.timeout, config.url_options())
    connector = Connector(config, address)
    failure: Exception
    try:
        with closing(connector.connect()) as connection:
            connection.deadline = Deadline(config.timeout)
            yield connection
        return
    except psycopg.Error as error:
        failure = connector.failure or error
    raise unavailable(failure, address) from address.redacted(failure)


def _check_hosts(config: PostgresConfig, address: Address) -> Iterator[Finding]:
    """Yield which of several servers cannot be reached."""
    if len(address.endpoints) < 2:
        return
    for endpoint in address.endpoints:
        conninfo = address.conninfo_of(endpoint, endpoint.hostaddr)
        name = f"{endpoint.host or endpoint.hostaddr}:{endpoint.port or 5432}"
        try:
            seconds = max(2, round(min(config.timeout, _SECONDS_A_HOST)))
            psycopg.connect(conninfo, connect_timeout=seconds, target_session_attrs="any").close()
        except psycopg.Error as error:
            refused = unavailable(error, address)
            yield warning(
                f"the server {name} does not answer: {refused}",
                "start it, or take it out of the address",
            )
        else:
            yield fine(f"the server {name} answers")


def _check_database(config: PostgresConfig, connection: Connection) -> Iterator[Finding]:
    schema, info = config.schema, connection.info
    yield doctor.check_version(
        info.server_version, info.parameter_status("server_version") or str(info.server_version)
    )
    before = time.time()
    (server,) = _rows(connection, doctor.CLOCK)[0]
    yield compared(server, before, time.time())
    yield doctor.check_pool(config.pool_max, *_rows(connection, doctor.LIMITS)[0])
    try:
        pending = pending_migrations(connection, schema, MESSAGE_TABLES)
        if pending:
            steps = ", ".join(f"{step.version:04} {step.name}" for step in pending)
            yield failed(f"schema {schema!r} lacks the migrations {steps}", "jazzmine migrate")
            return
        if lacks_functions(connection, schema, MESSAGE_TABLES):
            text = f"schema {schema!r} lacks functions, or they were made for another schema"
            yield failed(text, "jazzmine migrate")
            return
        yield fine(f"schema {schema!r} is up to date")
        check_rights(connection, schema, MESSAGE_TABLES)
        yield fine("the role has all rights")
    except ConfigurationError as error:
        yield _refused(error)
        return
    yield from _check_sequences(schema, connection, MESSAGE_TABLES)
    yield from doctor.check_indexes(schema, _rows(connection, doctor.INDEXES, schema=schema))


def _check_sequences(
    schema: str, connection: Connection, component: Component
) -> Iterator[Finding]:
    try:
        for table, statement in lagging_sequences(connection, schema, component):
            yield failed(f"the sequence of the table {table} is behind its rows", f"{statement};")
    except ConfigurationError as error:
        yield _refused(error)


def _refused(error: ConfigurationError) -> Finding:
    text, grant, rest = str(error).partition("GRANT ")
    return failed(text.rstrip(" .:"), f"{grant}{rest}" or "see the message")


def _rows(connection: Connection, sql: str, **parameters: object) -> list[tuple]:  # type: ignore[type-arg]
    return connection.run(bind(sql), parameters)
