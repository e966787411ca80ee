"""Checks of a PostgreSQL set-up, through connections of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import psycopg

from jazzmine._sync.clients.postgres.connection import Connection, Connector
from jazzmine._sync.clients.postgres.migration import Tables, first_schema
from jazzmine.backends.postgres import doctor
from jazzmine.backends.postgres.dsn import Address
from jazzmine.backends.postgres.errors import translated, unavailable
from jazzmine.backends.postgres.schema import Component
from jazzmine.config import PostgresConfig
from jazzmine.errors import ConfigurationError
from jazzmine.findings import Finding, clocks_compared, failed, fine


def check_postgres(config: PostgresConfig, component: Component) -> Iterator[Finding]:
    """Yield what is found about the server, and the tables of one kind of store."""
    with _connected(config) as connection:
        schema, info = config.schema or first_schema(connection), connection.info
        named = {"schema": schema, "versions": component.versions}

        def rows(sql: str, **values: object) -> list[Any]:
            return connection.run(sql, {**named, **values}, schema, prepare=False)

        name = info.parameter_status("server_version") or str(info.server_version)
        yield doctor.check_version(info.server_version, name)
        before = time.time()
        (server,) = rows(doctor.CLOCK)[0]
        yield clocks_compared(server, before, time.time())
        yield doctor.check_pool(config.pool_max, *rows(doctor.LIMITS)[0])
        if missing := rows(doctor.MISSING_ACCESS):
            yield _missing_rights(schema, missing)
            return
        try:
            stored = Tables(connection, replace(config, schema=schema), component)
            pending = stored.pending()
            if pending:
                steps = ", ".join(f"{step.version:04} {step.name}" for step in pending)
                yield failed(f"to do: apply {steps} to schema {schema!r}", "jazzmine migrate")
                return
            language = stored.search_language()
        except ConfigurationError as error:
            yield failed(str(error), "see the message")
            return
        yield fine(f"schema {schema!r} is up to date")
        yield from doctor.check_functions(schema, component, rows(doctor.FUNCTIONS))
        tables = [*component.tables, *(["message_words"] if language is not None else [])]
        if gone := rows(doctor.MISSING_TABLES, tables=tables):
            yield failed(
                f"schema {schema!r} is up to date by its table {component.versions}, but lacks"
                f" tables: {', '.join(name for (name,) in gone)}",
                "restore them from a backup",
            )
            return
        if missing := rows(doctor.MISSING_RIGHTS, tables=tables):
            yield _missing_rights(schema, missing)
        else:
            yield fine("the role has all rights")
        for role, level in rows(doctor.WRONG_ISOLATION, pid=info.backend_pid):
            yield failed(
                f"default_transaction_isolation of the role is {level!r}, and a store needs 'read"
                " committed'; a connection pooler shares the sessions, so the store does not set"
                " it",
                f"ALTER ROLE {role} SET default_transaction_isolation = 'read committed';",
            )
        if not missing and component in doctor.LAGGING:
            yield from _check_sequences(rows(doctor.LAGGING[component]))
        yield from doctor.check_indexes(schema, component, rows(doctor.INDEXES))


@contextmanager
def _connected(config: PostgresConfig) -> Iterator[Connection]:
    address = Address.of(config.dsn, config.timeout, config.url_options())
    try:
        connection = Connector(address, config).open()
    except psycopg.Error as error:
        raise unavailable(error, address.name) from error
    with closing(connection):
        try:
            yield connection
        except psycopg.Error as error:
            raise translated(error, address.name) from error


def _missing_rights(schema: str, missing: list[Any]) -> Finding:
    rights, grants = zip(*missing, strict=True)
    return failed(
        f"the role lacks rights in schema {schema!r}: {', '.join(rights)}", f"{'; '.join(grants)};"
    )


def _check_sequences(lagging: list[Any]) -> Iterator[Finding]:
    """Yield the tables whose rows have numbers that their sequence would give again."""
    for table, may_read, statement in lagging:
        if may_read:
            yield failed(f"the sequence of the table {table} is behind its rows", f"{statement};")
        else:
            yield failed(
                f"the role may not read the sequence of the table {table}, which may be behind"
                " copied rows",
                f"{statement};",
            )
