"""Brings the tables of a PostgreSQL database up to date."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from psycopg import errors

from jazzmine._sync.clients.postgres.connection import Connection
from jazzmine._compat.concurrency import SyncWork as Work
from jazzmine._compat.concurrency import sync_sleep as sleep
from jazzmine.backends.postgres.schema import (
    LONG_TRANSACTION,
    MAKE_SCHEMA,
    MAKE_VERSIONS,
    MESSAGE_TABLES,
    NOTE_VERSION,
    READ_VERSION,
    SHORT_LOCKS,
    STATE,
    TRY_LOCK,
    Component,
    Migration,
    function_files,
    migrations,
)
from jazzmine.backends.postgres.word_index import (
    EMPTY_TABLE,
    MAKE_TABLE,
    NOTE_SEARCH,
    REMOVE_NOTE,
    REMOVE_TABLE,
    REMOVE_TRIGGERS,
    make_triggers,
    read_state,
)
from jazzmine.config import PostgresConfig
from jazzmine.deadline import Deadline, backoff, milliseconds
from jazzmine.errors import ConfigurationError, StoreUnavailableError

__all__ = [
    "bring_up_to_date",
    "change_search",
    "first_schema",
    "pending_migrations",
    "search_language",
]

logger: logging.Logger = logging.getLogger(__name__)


def first_schema(connection: Connection) -> str:
    """Return the first schema of the role's search path, as other clients mean it.

    Raises:
        ConfigurationError: none of them exists, or none may be used.
    """
    first = (connection.run("SELECT current_schema()"))[0][0]
    if first is None:
        raise ConfigurationError(
            "no schema of the role's search_path exists: give one by the key 'schema'"
        )
    return str(first)


def pending_migrations(
    connection: Connection, schema: str, component: Component
) -> list[Migration]:
    """Return the migrations that the schema lacks; nothing is changed.

    Raises:
        ConfigurationError: the schema is newer than this library, or the database can't hold all
            characters.
    """
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise ConfigurationError(f"the database's encoding is {encoding}; jazzmine needs UTF8")
    version, _ = _version(connection, schema, component)
    known = migrations(component.folder)
    if version > known[-1].version:
        raise ConfigurationError(
            f"schema {schema!r} of the database has version {version}, and this jazzmine knows"
            f" none beyond {known[-1].version}: upgrade jazzmine"
        )
    return [step for step in known if step.version > version]


def bring_up_to_date(
    connection: Connection, config: PostgresConfig, component: Component
) -> bool:
    """Apply the migrations that are missing, and make the functions after them.

    Returns:
        whether there were any; only they may take longer than the connection's deadline.

    Raises:
        ConfigurationError: the schema is not one that this library can use, or not by this role.
        StoreUnavailableError: the configuration's `migration_timeout` has passed.
    """
    schema = config.schema or ""
    if not pending_migrations(connection, schema, component):
        return False

    def apply() -> None:
        steps = pending_migrations(connection, schema, component)
        connection.run(SHORT_LOCKS)
        has_schema, has_versions = _state(connection, schema, component)
        if not has_schema:
            _run(connection, schema, component, MAKE_SCHEMA)
        if not has_versions:
            _run(connection, schema, component, MAKE_VERSIONS)
        for step in steps:
            _run(connection, schema, component, step.sql)
            applied = {"version": step.version, "name": step.name}
            _run(connection, schema, component, NOTE_VERSION, applied)
        for functions in function_files(component):
            _run(connection, schema, component, functions)

    _run_alone(connection, config, apply)
    return True


def change_search(
    connection: Connection, config: PostgresConfig, language: str | None
) -> None:
    """Add the search index, make it anew and empty for another language, or remove it.

    Args:
        connection: a connection without an open transaction.
        config: that of the store.
        language: that of the stems, empty for none; None removes the index.

    Raises:
        ConfigurationError: the role may not change the schema.
        StoreUnavailableError: the configuration's `migration_timeout` has passed.
    """
    schema, component = config.schema or "", MESSAGE_TABLES

    def change() -> None:
        stored = search_language(connection, schema, component)
        if stored == language:
            return
        connection.run(SHORT_LOCKS)
        if language is None:
            _run(connection, schema, component, REMOVE_TRIGGERS + REMOVE_TABLE)
            _run(connection, schema, component, REMOVE_NOTE)
            return
        table = MAKE_TABLE if stored is None else EMPTY_TABLE
        _run(connection, schema, component, table + make_triggers(language))
        _run(connection, schema, component, NOTE_SEARCH, {"language": language})

    _run_alone(connection, config, change)


def search_language(connection: Connection, schema: str, component: Component) -> str | None:
    """Return the language of the search index, empty without stems; None if there is none."""
    _, note = _version(connection, schema, component)
    search = read_state(note)
    return None if search is None else search.language


def _version(
    connection: Connection, schema: str, component: Component
) -> tuple[int, str | None]:
    """Return the number of the last migration, and the note of the search index."""
    _, has_versions = _state(connection, schema, component)
    if not has_versions:
        return 0, None
    version, note = (_run(connection, schema, component, READ_VERSION))[0]
    return version, note


def _state(connection: Connection, schema: str, component: Component) -> tuple[bool, bool]:
    """Return whether the schema exists, and its table of versions."""
    values = {"schema": schema, "versions": component.versions}
    state: tuple[bool, bool] = (connection.run(STATE, values))[0]
    return state


def _run(
    connection: Connection,
    schema: str,
    component: Component,
    statements: str,
    values: dict[str, object] | None = None,
) -> list[Any]:
    return connection.run(statements, values, schema, component.versions, prepare=False)


def _run_alone(connection: Connection, config: PostgresConfig, change: Work[None]) -> None:
    """Change the schema in one transaction.

    If several processes do so at the same time, they wait for the first.

    Args:
        connection: a connection without an open transaction.
        config: that of the store.
        change: makes the changes; it may be called again after it had to wait for a lock.

    Raises:
        ConfigurationError: the schema holds objects of another application with names that
            jazzmine uses, or the role may not change it.
        StoreUnavailableError: `migration_timeout` has passed.
    """
    schema, deadline = config.schema or "", Deadline(config.migration_timeout)
    # The server ends it in time, if it can be reached.
    connection.deadline = Deadline(config.migration_timeout + config.timeout)
    pauses = backoff(0.05, 2.0)
    is_waiting = False
    try:
        while True:
            with suppress(errors.LockNotAvailable):
                with connection.transaction():
                    ms = str(min(milliseconds(deadline.remaining()), 2**31 - 1))
                    connection.run(LONG_TRANSACTION, {"ms": ms})
                    if (connection.run(TRY_LOCK, {"schema": schema}))[0][0]:
                        change()
                        return
            if not is_waiting:
                logger.info(
                    "another session is using or changing the tables in schema %r of the database;"
                    " waiting for it, for %.0f s at most",
                    schema,
                    deadline.remaining(),
                )
                is_waiting = True
            pause = next(pauses)
            if pause > deadline.remaining():
                raise _late(config)
            sleep(pause)
    except errors.QueryCanceled as error:
        raise _late(config) from error
    except errors.InsufficientPrivilege as error:
        raise ConfigurationError(
            f"the tables and functions in schema {schema!r} can't be brought up to date:"
            f" {error.diag.message_primary}; call initialize() once as their owner"
        ) from error
    except (errors.DuplicateTable, errors.DuplicateObject, errors.WrongObjectType) as error:
        raise ConfigurationError(
            f"schema {schema!r} holds an object that jazzmine did not make, and whose name it"
            f" needs: {error.diag.message_primary}; nothing was changed. Give jazzmine a schema of"
            " its own, by the key 'schema'; `jazzmine adopt` copies what version 0.1 has stored"
        ) from error


def _late(config: PostgresConfig) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"the tables in schema {config.schema!r} were not brought up to date within the"
        f" migration_timeout of {config.migration_timeout:g} s; perhaps another session holds a"
        " lock on them"
    )
