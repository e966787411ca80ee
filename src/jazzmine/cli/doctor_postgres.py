"""Checks of a PostgreSQL set-up, through connections of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict

from jazzmine._sync.clients.postgres.connection import Connection, Connector
from jazzmine._sync.clients.postgres.migration import (
    first_schema,
    pending_migrations,
    search_language,
)
from jazzmine.backends.clock import compared
from jazzmine.backends.postgres import doctor
from jazzmine.backends.postgres.dsn import Address
from jazzmine.backends.postgres.errors import unavailable
from jazzmine.backends.postgres.schema import (
    ITEM_TABLES,
    MESSAGE_TABLES,
    MISSING_RIGHTS,
    STORED_FUNCTIONS,
    Component,
    bind,
    function_names,
    migrations,
    quoted,
)
from jazzmine.backends.postgres.settings import WRONG_SETTINGS
from jazzmine.config import PostgresConfig
from jazzmine.errors import ConfigurationError
from jazzmine.findings import Finding, failed, fine, warning

_SECONDS_A_HOST = 5.0


def check_postgres(config: PostgresConfig) -> Iterator[Finding]:
    """Yield what is found."""
    yield from _check_hosts(config, _address(config))
    with _connected(config) as connection:
        yield from _check_database(config, connection)


def check_item_sequences(config: PostgresConfig) -> Iterator[Finding]:
    """Yield whether the revisions of a long-term memory would be given again."""
    with _connected(config) as connection:
        schema = config.schema or first_schema(connection)
        yield from _check_sequences(schema, connection, ITEM_TABLES)


@contextmanager
def _connected(config: PostgresConfig) -> Iterator[Connection]:
    failure: Exception
    try:
        with closing(Connector(_address(config), config).open()) as connection:
            yield connection
        return
    except psycopg.Error as error:
        failure = error
    address = _address(config)
    raise unavailable(failure, address) from address.redacted(failure)


def _address(config: PostgresConfig) -> Address:
    return Address.of(config.dsn, config.timeout, config.url_options())


def _check_hosts(config: PostgresConfig, address: Address) -> Iterator[Finding]:
    """Yield which of several servers cannot be reached."""
    if len(address.servers) < 2:
        return
    for conninfo in address.servers:
        parts = conninfo_to_dict(conninfo)
        name = f"{parts.get('host') or parts.get('hostaddr')}:{parts.get('port') or 5432}"
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
    schema, info = config.schema or first_schema(connection), connection.info
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
        yield fine(f"schema {schema!r} is up to date")
        yield from _check_functions(schema, connection, MESSAGE_TABLES)
        yield from _check_rights(schema, connection, MESSAGE_TABLES)
    except ConfigurationError as error:
        yield _refused(error)
        return
    for role, name, value, needed in _rows(connection, WRONG_SETTINGS, pid=info.backend_pid):
        yield failed(
            f"{name} of the role is {value!r}, and a store needs {needed!r}; a connection pooler"
            " shares the sessions, so the store does not set it",
            f"ALTER ROLE {role} SET {name} = '{needed}';",
        )
    yield from _check_sequences(schema, connection, MESSAGE_TABLES)
    yield from doctor.check_indexes(schema, _rows(connection, doctor.INDEXES, schema=schema))


def _check_functions(
    schema: str, connection: Connection, component: Component
) -> Iterator[Finding]:
    """Yield whether functions are missing, or name a schema that was renamed since."""
    names = function_names(component)
    present = dict(
        connection.run(bind(STORED_FUNCTIONS, schema), {"schema": schema, "functions": names})
    )
    wrong = [name for name in names if not present.get(name)]
    if wrong:
        yield failed(
            f"functions of schema {schema!r} are missing, or were made for another schema:"
            f" {', '.join(wrong)}",
            # The next store that is opened applies it again, and makes the functions.
            f"DELETE FROM {quoted(schema)}.{component.versions} WHERE version ="
            f" {migrations(component.folder)[-1].version};",
        )


def _check_rights(schema: str, connection: Connection, component: Component) -> Iterator[Finding]:
    """Yield the rights that the role lacks, and the tables that are not there."""
    required = dict(component.rights)
    if search_language(connection, schema, component) is not None:
        required["message_words"] = required["messages"]
    pairs = [(table, right) for table, rights in required.items() for right in rights]
    tables, rights = map(list, zip(*pairs, strict=True))
    functions = function_names(component)
    missing = _rows(
        connection,
        MISSING_RIGHTS,
        schema=schema,
        tables=tables,
        privileges=rights,
        functions=functions,
    )
    if gone := sorted({table for _, grant, table in missing if grant is None}):
        yield failed(
            f"schema {schema!r} is up to date by its table {component.versions}, but lacks"
            f" tables: {', '.join(gone)}",
            "restore them from a backup",
        )
    elif missing:
        names = ", ".join(row[0] for row in missing)
        grants = "; ".join(row[1] for row in missing)
        yield failed(f"the role lacks rights in schema {schema!r}: {names}", f"{grants};")
    else:
        yield fine("the role has all rights")


def _check_sequences(
    schema: str, connection: Connection, component: Component
) -> Iterator[Finding]:
    """Yield the tables whose rows have numbers that their sequence would give again."""
    try:
        lagging = connection.run(bind(component.lagging, schema), prepare=False)
    except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege):
        return  # which was found before
    for table, may_read, statement in lagging:
        if may_read:
            yield failed(f"the sequence of the table {table} is behind its rows", f"{statement};")
        else:
            yield failed(
                f"the role may not read the sequence of the table {table}, which may be behind"
                " copied rows",
                f"{statement};",
            )


def _refused(error: ConfigurationError) -> Finding:
    text, grant, rest = str(error).partition("GRANT ")
    return failed(text.rstrip(" .:"), f"{grant}{rest}" or "see the message")


def _rows(connection: Connection, sql: str, **parameters: object) -> list[tuple]:  # type: ignore[type-arg]
    return connection.run(bind(sql), parameters)
