"""Checks of a PostgreSQL set-up, through connections of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from jazzmine._sync.clients.postgres.client import PostgresClient
from jazzmine._sync.clients.postgres.migration import Tables
from jazzmine.backends.postgres import doctor
from jazzmine.backends.postgres.schema import Component
from jazzmine.config import PostgresConfig
from jazzmine.errors import ConfigurationError
from jazzmine.findings import Finding, clocks_compared, failed, fine


def check_postgres(config: PostgresConfig, component: Component) -> Iterator[Finding]:
    """Yield what is found about the server, and the tables of one kind of store."""
    client = PostgresClient(config, component)
    with client.apart() as connection:
        schema, info = client.schema, connection.info
        named = {
            "schema": schema,
            "versions": component.versions,
            "tables": list(component.tables),
        }

        def rows(sql: str) -> list[Any]:
            text = sql.replace("$versions", component.versions)
            return connection.run(text, named, schema, prepare=False)

        name = info.parameter_status("server_version") or str(info.server_version)
        yield doctor.check_version(info.server_version, name)
        before = time.time()
        server, is_read_only = rows(doctor.CLOCK)[0]
        yield clocks_compared(server, before, time.time())
        if is_read_only:
            yield failed(
                "it takes no writes: it is a standby, or default_transaction_read_only is on",
                "add target_session_attrs=read-write and all hosts to the address, or switch the"
                " setting off for the role, the database or the server",
            )
        yield doctor.check_pool(config.pool_max, *rows(doctor.LIMITS)[0])
        if missing := rows(doctor.MISSING_RIGHTS):
            rights, grants = zip(*missing, strict=True)
            text = f"the role lacks rights in schema {schema!r}: {', '.join(rights)}"
            yield failed(text, f"{'; '.join(grants)};")
            return
        yield fine("the role has all rights")
        try:
            tables = Tables(connection, replace(config, schema=schema), component)
            if pending := tables.pending():
                steps = ", ".join(f"{step.version:04} {step.name}" for step in pending)
                text = f"to do: apply {steps} to schema {schema!r}, as the owner of its tables"
                yield failed(text, "jazzmine migrate")
                return
        except ConfigurationError as error:
            yield failed(str(error), "see the message")
            return
        yield fine(f"schema {schema!r} is up to date")
        yield from doctor.check_functions(schema, component, rows(doctor.FUNCTIONS))
        if gone := rows(doctor.MISSING_TABLES):
            yield failed(
                f"schema {schema!r} is up to date by its table {component.versions}, but lacks"
                f" tables: {', '.join(name for (name,) in gone)}",
                "restore them from a backup",
            )
            return
        if component in doctor.LAGGING:
            for table, statement in rows(doctor.LAGGING[component]):
                text = f"the sequence of the table {table} is behind its rows"
                yield failed(text, f"{statement};")
        yield from doctor.check_indexes(schema, component, rows(doctor.INDEXES))
