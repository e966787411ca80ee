"""Brings the tables of a PostgreSQL database up to date."""

from __future__ import annotations

import logging
from contextlib import suppress

from psycopg import errors
from psycopg.errors import Diagnostic

from jazzmine._sync.clients.postgres.connection import Connection
from jazzmine._compat.sync_concurrency import Work, sleep
from jazzmine.backends.postgres.functions import functions_of
from jazzmine.backends.postgres.leases import WRONG_SETTINGS
from jazzmine.backends.postgres.schema import (
    LONG_TRANSACTION,
    MAKE_SCHEMA,
    MAKE_VERSIONS,
    MISSING_RIGHTS,
    NOTE_VERSION,
    READ_VERSION,
    SHORT_LOCKS,
    STATE,
    STORED_FUNCTIONS,
    TRY_LOCK,
    Component,
    Migration,
    State,
    bind,
    in_ms,
    migrations,
    quoted,
)
from jazzmine.backends.postgres.word_index import (
    EMPTY_TABLE,
    MAKE_TABLE,
    MAKE_TRIGGER,
    NOTE_SEARCH,
    REMOVE_NOTE,
    REMOVE_TABLE,
    read_state,
)
from jazzmine.config import PostgresConfig
from jazzmine.deadline import Deadline, backoff
from jazzmine.errors import ConfigurationError, StoreUnavailableError
from jazzmine.search.index import SearchState

__all__ = [
    "bring_up_to_date",
    "change_search",
    "check_rights",
    "lacks_functions",
    "lagging_sequences",
    "pending_migrations",
]

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
    version, _ = _version(connection, schema, state, component)
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
    schema, timeout = config.schema, config.migration_timeout
    missing = bool(pending_migrations(connection, schema, component))
    if missing or lacks_functions(connection, schema, component):
        missing = True
        # The server ends it in time, if it can be reached.
        connection.deadline = Deadline(timeout + config.timeout)
        _run_alone(connection, schema, timeout, lambda: _apply(connection, schema, component))
    check_rights(connection, schema, component)
    _check_settings(connection)
    _mend_sequences(connection, schema, component)
    return missing


def change_search(
    connection: Connection, config: PostgresConfig, component: Component, language: str | None
) -> None:
    """Add the index of words, make it anew and empty for another language, or remove it.

    Args:
        connection: a connection without an open transaction.
        config: that of the store.
        component: the tables of a message store.
        language: that of the stems, empty for none; None removes the index.

    Raises:
        ConfigurationError: the role may not change the schema.
        StoreUnavailableError: the configuration's `migration_timeout` has passed.
    """
    schema = config.schema

    def change() -> None:
        state = _state(connection, schema, component)
        _, stored = _version(connection, schema, state, component)
        if (stored and stored.language) == language:
            return
        connection.run(bind(SHORT_LOCKS))
        if language is None:
            connection.run(bind(REMOVE_TABLE, schema), prepare=False)
            connection.run(bind(REMOVE_NOTE, schema, component.versions))
        else:
            table = MAKE_TABLE if stored is None else EMPTY_TABLE
            connection.run(bind(table, schema), prepare=False)
            noted = {"language": language}
            connection.run(bind(NOTE_SEARCH, schema, component.versions), noted)
        _make_functions(connection, schema, component)
        if stored is None:
            connection.run(bind(MAKE_TRIGGER, schema), prepare=False)

    connection.deadline = Deadline(config.migration_timeout + config.timeout)
    _run_alone(connection, schema, config.migration_timeout, change)


def _run_alone(
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
                with connection.transaction():
                    connection.run(
                        bind(LONG_TRANSACTION), {"ms": str(in_ms(deadline.remaining()))}
                    )
                    rows = connection.run(bind(TRY_LOCK), {"schema": schema})
                    if rows[0][0]:
                        change()
                        return
            if not is_waiting:
                logger.warning(
                    "another session is using or changing the tables in schema %r of the database;"
                    " waiting for it, for %.0f s at most",
                    schema,
                    deadline.remaining(),
                )
                is_waiting = True
            pause = next(pauses)
            if pause > deadline.remaining():
                raise _late(schema, timeout)
            sleep(pause)
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
            " its own, by the key 'schema'"
        ) from error


def _late(schema: str, timeout: float) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"the tables in schema {schema!r} were not brought up to date within the"
        f" migration_timeout of {timeout:g} s; perhaps another session holds a lock on them"
    )


def _log_warning(diagnostic: Diagnostic) -> None:
    """Log a warning of a migration, which names the data that it had to change."""
    if diagnostic.severity_nonlocalized == "WARNING":
        logger.warning("%s", diagnostic.message_primary)


def check_rights(connection: Connection, schema: str, component: Component) -> None:
    """Raise if the role lacks a right that a store needs.

    Raises:
        ConfigurationError: the text has the right and the statement that grants it.
    """
    language = _language(connection, schema, component)
    wanted = dict(component.rights)
    if language is not None:
        wanted["message_words"] = wanted["messages"]
    pairs = [(table, right) for table, rights in wanted.items() for right in rights]
    tables, rights = map(list, zip(*pairs, strict=True))
    parameters = {
        "schema": schema,
        "tables": tables,
        "privileges": rights,
        "functions": [*component.functions, *_functions(component, schema, language)],
    }
    missing = connection.run(bind(MISSING_RIGHTS), parameters)
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
    for role, name, value, needed in connection.run(bind(WRONG_SETTINGS), parameters):
        raise ConfigurationError(
            f"{name} of the role is {value!r}, and a store needs {needed!r}. A connection pooler"
            " shares the sessions, so the store does not set it;"
            f" ALTER ROLE {role} SET {name} = '{needed}' does"
        )


def _functions(
    component: Component, schema: str, language: str | None
) -> dict[str, tuple[str, str]]:
    sources = component.sources if language is None else (*component.sources, "words")
    return functions_of(schema, sources, language)


def _language(connection: Connection, schema: str, component: Component) -> str | None:
    if not component.has_messages:
        return None
    state = _state(connection, schema, component)
    _, search = _version(connection, schema, state, component)
    return None if search is None else search.language


def lacks_functions(connection: Connection, schema: str, component: Component) -> bool:
    """Return whether a function is missing, or names another schema than its own."""
    made = _functions(component, schema, _language(connection, schema, component))
    if not made:
        return False
    parameters = {"schema": schema, "functions": list(made)}
    stored = set(connection.run(bind(STORED_FUNCTIONS), parameters))
    return not {(name, body) for name, (_, body) in made.items()} <= stored


def lagging_sequences(
    connection: Connection, schema: str, component: Component
) -> list[tuple[str, str]]:
    """Return the tables whose rows have numbers that their sequence would give again.

    Returns:
        the name of each, and the statement that mends its sequence.

    Raises:
        ConfigurationError: the role may not read a sequence; the text has the `GRANT`.
    """
    if not component.lagging:
        return []
    rows = connection.run(bind(component.lagging, schema), prepare=False)
    unreadable = [(table, grant) for table, may_read, grant in rows if not may_read]
    if unreadable:
        tables = ", ".join(table for table, _ in unreadable)
        raise ConfigurationError(
            f"the role may not read the sequences of these tables in schema {schema!r}, which may"
            f" be behind copied rows: {tables}. {'; '.join(grant for _, grant in unreadable)}"
        )
    return [(table, statement) for table, _, statement in rows]


def _mend_sequences(connection: Connection, schema: str, component: Component) -> None:
    """Set sequences that were left behind when the rows were copied.

    Raises:
        ConfigurationError: the role may not; the text has the statement.
    """
    for table, statement in lagging_sequences(connection, schema, component):
        try:
            connection.run(bind(statement), prepare=False)
        except errors.InsufficientPrivilege as error:
            raise ConfigurationError(
                f"the rows of the table {table} in schema {schema!r} were copied without its"
                f" sequence, which would give their numbers again: {statement}"
            ) from error
        logger.warning(
            "the sequence of the table %s in schema %r was behind its rows, which were copied"
            " without it; it is set now",
            table,
            schema,
        )


def _apply(connection: Connection, schema: str, component: Component) -> None:
    state = _state(connection, schema, component)
    version, _ = _version(connection, schema, state, component)
    _check_creation(schema, state)
    steps = [step for step in migrations(component.folder) if step.version > version]
    connection.run(bind(SHORT_LOCKS))
    if not state.exists:
        connection.run(bind(MAKE_SCHEMA, schema))
    if not state.has_versions:
        connection.run(bind(MAKE_VERSIONS, schema, component.versions))
    for step in steps:
        connection.run(bind(step.sql, schema), prepare=False)
        applied = {"version": step.version, "name": step.name}
        connection.run(bind(NOTE_VERSION, schema, component.versions), applied)
    _make_functions(connection, schema, component)


def _make_functions(connection: Connection, schema: str, component: Component) -> None:
    made = _functions(component, schema, _language(connection, schema, component))
    for definition, _ in made.values():
        connection.run(bind(definition), prepare=False)


def _state(connection: Connection, schema: str, component: Component) -> State:
    parameters = {"schema": schema, "versions": component.versions}
    state = State(*(connection.run(bind(STATE), parameters))[0])
    if state.exists and not state.may_use:
        raise ConfigurationError(
            f"the role may not use schema {schema!r}:"
            f" GRANT USAGE ON SCHEMA {quoted(schema)} TO {state.role}"
        )
    return state


def _version(
    connection: Connection, schema: str, state: State, component: Component
) -> tuple[int, SearchState | None]:
    """Return the number of the last migration, and the state of the index of words."""
    if not state.has_versions:
        return 0, None
    if not state.may_read_versions:
        raise ConfigurationError(
            f"the role may not read the version of schema {schema!r}:"
            f" GRANT SELECT ON {quoted(schema)}.{component.versions} TO {state.role}"
        )
    rows = connection.run(bind(READ_VERSION, schema, component.versions))
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
