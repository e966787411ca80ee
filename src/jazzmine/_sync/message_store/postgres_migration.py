"""Brings the tables of a PostgreSQL database up to date."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import errors
from psycopg.errors import Diagnostic

from jazzmine._sync.message_store.postgres_connection import Connection
from jazzmine.backends.postgres.leases import WRONG_SETTINGS
from jazzmine.backends.postgres.ownership import (
    COLUMNS,
    MISSING_RIGHTS,
    NAMES_IN_USE,
    Column,
    ObjectInSchema,
    foreign,
    names_touched,
)
from jazzmine.backends.postgres.schema import (
    LOCK,
    LONG_TRANSACTION,
    MAKE_SCHEMA,
    MAKE_VERSIONS,
    NOTE_VERSION,
    READ_VERSION,
    STATE,
    TRY_LOCK,
    Component,
    Migration,
    State,
    bind,
    in_ms,
    migrations,
    quoted,
)
from jazzmine.config import PostgresConfig
from jazzmine.deadline import Deadline
from jazzmine.errors import ConfigurationError, StoreUnavailableError

__all__ = ["bring_up_to_date", "check_rights", "pending_migrations"]

logger: logging.Logger = logging.getLogger(__name__)


def pending_migrations(
    connection: Connection, schema: str, component: Component
) -> list[Migration]:
    """Return the migrations that the schema lacks; nothing is changed.

    Raises:
        ConfigurationError: the schema is newer than this library, the database can't hold all
            characters, or the role may not read the schema's version.
    """
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise ConfigurationError(f"the database's encoding is {encoding}; jazzmine needs UTF8")
    state = _state(connection, schema, component)
    version = _version(connection, schema, state, component)
    return [step for step in migrations(component.folder) if step.version > version]


def bring_up_to_date(
    connection: Connection, config: PostgresConfig, component: Component
) -> bool:
    """Apply the migrations that are missing, and check what a store needs of the server.

    Returns:
        whether there were any; only they may take longer than the connection's deadline.

    Raises:
        ConfigurationError: the schema is not one that this library can use, or not by this role.
        StoreUnavailableError: the configuration's `migration_timeout` has passed.
    """
    timeout = config.migration_timeout
    missing = pending_migrations(connection, config.schema, component)
    if missing:
        # The server ends it in time, if it can be reached.
        connection.deadline = Deadline(timeout + config.timeout)
        _migrate(connection, config.schema, component, timeout)
    check_rights(connection, config.schema, component)
    _check_settings(connection)
    return bool(missing)


def _migrate(
    connection: Connection, schema: str, component: Component, timeout: float
) -> None:
    """Apply the migrations that the schema lacks, all of them or none.

    If several processes do so at the same time, they wait for the first.

    Args:
        connection: a connection without an open transaction.
        schema: the name of the schema.
        component: which tables to create or change.
        timeout: how long this may take, including waiting for other processes, in s.

    Raises:
        ConfigurationError: the schema holds objects of another application with names that
            jazzmine uses, or the role may not change it.
        StoreUnavailableError: `timeout` has passed.
    """
    deadline = Deadline(timeout)
    connection.add_notice_handler(_log_warning)
    try:
        with connection.transaction():
            _lock(connection, schema, deadline)
            _apply(connection, schema, component, deadline)
    except errors.QueryCanceled as error:
        raise StoreUnavailableError(
            f"the tables in schema {schema!r} were not brought up to date within the"
            f" migration_timeout of {timeout:g} s; perhaps another session holds a lock on them"
        ) from error
    except errors.InsufficientPrivilege as error:
        raise ConfigurationError(
            f"the tables in schema {schema!r} can't be brought up to date:"
            f" {error.diag.message_primary}; call initialize() once as their owner"
        ) from error


def _log_warning(diagnostic: Diagnostic) -> None:
    """Log a warning of a migration, which names the data that it had to change."""
    if diagnostic.severity_nonlocalized == "WARNING":
        logger.warning("%s", diagnostic.message_primary)


def check_rights(connection: Connection, schema: str, component: Component) -> None:
    """Raise if the role lacks a right that a store needs.

    Raises:
        ConfigurationError: the text has the right and the statement that grants it.
    """
    pairs = [(table, right) for table, rights in component.rights.items() for right in rights]
    tables, rights = map(list, zip(*pairs, strict=True))
    functions = list(component.functions)
    parameters = {
        "schema": schema,
        "tables": tables,
        "privileges": rights,
        "functions": functions,
    }
    missing = _rows(connection, MISSING_RIGHTS, parameters)
    if not missing:
        return
    if gone := sorted({table for _, grant, table in missing if grant is None}):
        raise ConfigurationError(
            f"schema {schema!r} is up to date by its table {component.versions},"
            f" but lacks tables: {', '.join(gone)}; restore them from a backup"
        )
    names = ", ".join(row[0] for row in missing)
    grants = "; ".join(row[1] for row in missing)
    raise ConfigurationError(f"the role lacks rights in schema {schema!r}: {names}. {grants}")


def _check_settings(connection: Connection) -> None:
    """Raise if the role's sessions have a setting with which a store would go wrong.

    Raises:
        ConfigurationError: the text has the statement that changes it.
    """
    parameters = {"pid": connection.info.backend_pid}
    for role, name, value, needed in _rows(connection, WRONG_SETTINGS, parameters):
        raise ConfigurationError(
            f"{name} of the role is {value!r}, and a store needs {needed!r}. A connection pooler"
            " shares the sessions, so the store does not set it;"
            f" ALTER ROLE {role} SET {name} = '{needed}' does"
        )


def _lock(connection: Connection, schema: str, deadline: Deadline) -> None:
    parameters = {"schema": schema}
    _limit_time(connection, deadline)
    (is_locked,) = (_rows(connection, TRY_LOCK, parameters))[0]
    if not is_locked:
        logger.warning(
            "another process is changing the tables in schema %r of the database; waiting for it,"
            " for %.0f s at most",
            schema,
            deadline.remaining(),
        )
        connection.execute(LOCK.encode(), parameters)


def _apply(
    connection: Connection, schema: str, component: Component, deadline: Deadline
) -> None:
    state = _state(connection, schema, component)
    version = _version(connection, schema, state, component)
    steps = [step for step in migrations(component.folder) if step.version > version]
    if not steps:
        return
    _check_creation(schema, state)
    _check_ownership(connection, schema, component, steps, version)
    if not state.exists:
        connection.execute(bind(MAKE_SCHEMA, schema))
    connection.execute(bind(MAKE_VERSIONS, schema, component.versions))
    for step in steps:
        _limit_time(connection, deadline)
        connection.execute(bind(step.sql, schema), prepare=False)
        applied = {"version": step.version, "name": step.name}
        connection.execute(bind(NOTE_VERSION, schema, component.versions), applied)


def _limit_time(connection: Connection, deadline: Deadline) -> None:
    parameters = {"ms": str(in_ms(deadline.remaining()))}
    connection.execute(LONG_TRANSACTION.encode(), parameters)


def _state(connection: Connection, schema: str, component: Component) -> State:
    parameters = {"schema": schema, "versions": component.versions}
    state = State(*(_rows(connection, STATE, parameters))[0])
    if state.exists and not state.may_use:
        raise ConfigurationError(
            f"the role may not use schema {schema!r}:"
            f" GRANT USAGE ON SCHEMA {quoted(schema)} TO {state.role}"
        )
    return state


def _version(connection: Connection, schema: str, state: State, component: Component) -> int:
    if not state.has_versions:
        return 0
    if not state.may_read_versions:
        raise ConfigurationError(
            f"the role may not read the version of schema {schema!r}:"
            f" GRANT SELECT ON {quoted(schema)}.{component.versions} TO {state.role}"
        )
    statement = bind(READ_VERSION, schema, component.versions)
    row = (connection.execute(statement)).fetchone()
    version = int(row[0]) if row else 0
    known = migrations(component.folder)[-1].version
    if version > known:
        raise ConfigurationError(
            f"schema {schema!r} of the database has version {version}, and this jazzmine knows"
            f" none beyond {known}: upgrade jazzmine"
        )
    return version


def _check_creation(schema: str, state: State) -> None:
    if not state.exists and not state.may_create_schemas:
        raise ConfigurationError(
            f"there is no schema {schema!r}, and the role may not make one:"
            f" GRANT CREATE ON DATABASE {state.database} TO {state.role}"
        )
    if state.exists and not state.may_create:
        raise ConfigurationError(
            f"the tables in schema {schema!r} have to be made or changed, and the role may not:"
            f" GRANT CREATE ON SCHEMA {quoted(schema)} TO {state.role}"
        )


def _check_ownership(
    connection: Connection,
    schema: str,
    component: Component,
    steps: Sequence[Migration],
    version: int,
) -> None:
    names = {name for step in steps for name in names_touched(step.sql)}
    if not version:
        names.add(component.versions)
    parameters = {"schema": schema, "names": sorted(names)}
    found = [ObjectInSchema(*row) for row in _rows(connection, NAMES_IN_USE, parameters)]
    columns = [Column(*row) for row in _rows(connection, COLUMNS, parameters)]
    others = list(foreign(found, columns, version, component.versions))
    if others:
        raise ConfigurationError(
            f"schema {schema!r} holds {', '.join(others)}, which jazzmine did not make, and whose"
            " name it needs; nothing was changed. Give jazzmine a schema of its own, by the key"
            " 'schema'"
        )


def _rows(
    connection: Connection, sql: str, parameters: Mapping[str, object]
) -> list[tuple[Any, ...]]:
    return (connection.execute(sql.encode(), parameters)).fetchall()
