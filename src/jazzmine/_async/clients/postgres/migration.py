"""Brings the tables of a PostgreSQL database up to date."""

from __future__ import annotations

import logging
from contextlib import suppress

from psycopg import errors
from psycopg.errors import Diagnostic

from jazzmine._async.clients.postgres.connection import Connection
from jazzmine._compat.concurrency import AsyncWork as Work
from jazzmine._compat.concurrency import async_sleep as sleep
from jazzmine.backends.postgres.schema import (
    LONG_TRANSACTION,
    MAKE_SCHEMA,
    MAKE_VERSIONS,
    NOTE_VERSION,
    READ_VERSION,
    SHORT_LOCKS,
    STATE,
    TRY_LOCK,
    Component,
    Migration,
    State,
    bind,
    function_files,
    in_ms,
    migrations,
    quoted,
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
from jazzmine.deadline import Deadline, backoff
from jazzmine.errors import ConfigurationError, StoreUnavailableError
from jazzmine.search.query import SearchState

__all__ = [
    "bring_up_to_date",
    "change_search",
    "first_schema",
    "pending_migrations",
    "search_language",
]

logger: logging.Logger = logging.getLogger(__name__)


async def first_schema(connection: Connection) -> str:
    """Return the first schema of the role's search path, as other clients mean it.

    Raises:
        ConfigurationError: none of them exists, or none may be used.
    """
    first = (await connection.run(bind("SELECT current_schema()")))[0][0]
    if first is None:
        raise ConfigurationError(
            "no schema of the role's search_path exists: give one by the key 'schema'"
        )
    return str(first)


async def pending_migrations(
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
    state = await _state(connection, schema, component)
    version, _ = await _version(connection, schema, state, component)
    return [step for step in migrations(component.folder) if step.version > version]


async def bring_up_to_date(
    connection: Connection, config: PostgresConfig, component: Component
) -> bool:
    """Apply the migrations that are missing, and make the functions after them.

    Returns:
        whether there were any; only they may take longer than the connection's deadline.

    Raises:
        ConfigurationError: the schema is not one that this library can use, or not by this role.
        StoreUnavailableError: the configuration's `migration_timeout` has passed.
    """
    schema, timeout = config.schema or "", config.migration_timeout
    missing = bool(await pending_migrations(connection, schema, component))
    if missing:
        # The server ends it in time, if it can be reached.
        connection.deadline = Deadline(timeout + config.timeout)
        await _run_alone(connection, schema, timeout, lambda: _apply(connection, schema, component))
    return missing


async def change_search(
    connection: Connection, config: PostgresConfig, component: Component, language: str | None
) -> None:
    """Add the search index, make it anew and empty for another language, or remove it.

    Args:
        connection: a connection without an open transaction.
        config: that of the store.
        component: the tables of a message store.
        language: that of the stems, empty for none; None removes the index.

    Raises:
        ConfigurationError: the role may not change the schema.
        StoreUnavailableError: the configuration's `migration_timeout` has passed.
    """
    schema = config.schema or ""

    async def change() -> None:
        stored = await search_language(connection, schema, component)
        if stored == language:
            return
        await connection.run(bind(SHORT_LOCKS))
        if language is None:
            await connection.run(bind(REMOVE_TRIGGERS + REMOVE_TABLE, schema), prepare=False)
            await connection.run(bind(REMOVE_NOTE, schema, component.versions))
            return
        table = MAKE_TABLE if stored is None else EMPTY_TABLE
        await connection.run(bind(table, schema), prepare=False)
        noted = {"language": language}
        await connection.run(bind(NOTE_SEARCH, schema, component.versions), noted)
        await connection.run(bind(make_triggers(language), schema), prepare=False)

    connection.deadline = Deadline(config.migration_timeout + config.timeout)
    await _run_alone(connection, schema, config.migration_timeout, change)


async def _run_alone(
    connection: Connection, schema: str, timeout: float, change: Work[None]
) -> None:
    """Change the schema in one transaction.

    If several processes do so at the same time, they wait for the first.

    Args:
        connection: a connection without an open transaction.
        schema: the name of the schema.
        timeout: how long this may take, including waiting for locks, in s.
        change: makes the changes; it may be called again after it had to wait for a lock.

    Raises:
        ConfigurationError: the schema holds objects of another application with names that
            jazzmine uses, or the role may not change it.
        StoreUnavailableError: `timeout` has passed.
    """
    deadline = Deadline(timeout)
    pauses = backoff(0.05, 2.0)
    connection.add_notice_handler(_log_warning)
    is_waiting = False
    try:
        while True:
            with suppress(errors.LockNotAvailable):
                async with connection.transaction():
                    await connection.run(
                        bind(LONG_TRANSACTION), {"ms": str(in_ms(deadline.remaining()))}
                    )
                    rows = await connection.run(bind(TRY_LOCK), {"schema": schema})
                    if rows[0][0]:
                        await change()
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
                raise _late(schema, timeout)
            await sleep(pause)
    except errors.QueryCanceled as error:
        raise _late(schema, timeout) from error
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
    finally:
        connection.remove_notice_handler(_log_warning)  # the pool may be the application's


def _late(schema: str, timeout: float) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"the tables in schema {schema!r} were not brought up to date within the"
        f" migration_timeout of {timeout:g} s; perhaps another session holds a lock on them"
    )


def _log_warning(diagnostic: Diagnostic) -> None:
    """Log a warning of a migration, which names the data that it had to change."""
    if diagnostic.severity_nonlocalized == "WARNING":
        logger.warning("%s", diagnostic.message_primary)


async def search_language(connection: Connection, schema: str, component: Component) -> str | None:
    """Return the language of the search index, empty without stems; None if there is none."""
    if not component.has_messages:
        return None
    state = await _state(connection, schema, component)
    _, search = await _version(connection, schema, state, component)
    return None if search is None else search.language


async def _apply(connection: Connection, schema: str, component: Component) -> None:
    state = await _state(connection, schema, component)
    version, _ = await _version(connection, schema, state, component)
    _check_creation(schema, state)
    steps = [step for step in migrations(component.folder) if step.version > version]
    await connection.run(bind(SHORT_LOCKS))
    if not state.exists:
        await connection.run(bind(MAKE_SCHEMA, schema))
    if not state.has_versions:
        await connection.run(bind(MAKE_VERSIONS, schema, component.versions))
    for step in steps:
        await connection.run(bind(step.sql, schema), prepare=False)
        applied = {"version": step.version, "name": step.name}
        await connection.run(bind(NOTE_VERSION, schema, component.versions), applied)
    for functions in function_files(component):
        await connection.run(bind(functions, schema), prepare=False)
    language = await search_language(connection, schema, component)
    if language is not None:
        await connection.run(bind(make_triggers(language), schema), prepare=False)


async def _state(connection: Connection, schema: str, component: Component) -> State:
    parameters = {"schema": schema, "versions": component.versions}
    state = State(*(await connection.run(bind(STATE), parameters))[0])
    if state.exists and not state.may_use:
        raise ConfigurationError(
            f"the role may not use schema {schema!r}:"
            f" GRANT USAGE ON SCHEMA {quoted(schema)} TO {state.role}"
        )
    return state


async def _version(
    connection: Connection, schema: str, state: State, component: Component
) -> tuple[int, SearchState | None]:
    """Return the number of the last migration, and the state of the search index."""
    if not state.has_versions:
        return 0, None
    if not state.may_read_versions:
        raise ConfigurationError(
            f"the role may not read the version of schema {schema!r}:"
            f" GRANT SELECT ON {quoted(schema)}.{component.versions} TO {state.role}"
        )
    rows = await connection.run(bind(READ_VERSION, schema, component.versions))
    version = int(rows[0][0])
    known = migrations(component.folder)[-1].version
    if version > known:
        raise ConfigurationError(
            f"schema {schema!r} of the database has version {version}, and this jazzmine knows"
            f" none beyond {known}: upgrade jazzmine"
        )
    return version, read_state(rows[0][1])


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
