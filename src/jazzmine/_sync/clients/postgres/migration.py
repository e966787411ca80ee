"""Brings the tables of a PostgreSQL database up to date."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from psycopg import errors

from jazzmine._sync.clients.postgres.connection import Connection
from jazzmine._compat.concurrency import SyncWork as Work
from jazzmine._compat.concurrency import sync_sleep as sleep
from jazzmine.backends.postgres.schema import (
    FIND_VERSIONS,
    LONG_TRANSACTION,
    MAKE_VERSIONS,
    NOTE_VERSION,
    READ_VERSIONS,
    SHORT_LOCKS,
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


class Tables:
    """The tables of one kind of store, which may share the schema with those of other kinds.

    Args:
        connection: a connection without an open transaction, for this alone.
        config: that of the store, with the name of the schema.
        component: what they are.
    """

    def __init__(
        self, connection: Connection, config: PostgresConfig, component: Component
    ) -> None:
        self._connection = connection
        self._config = config
        self._schema = config.schema or ""
        self._component = component

    def pending(self) -> list[Migration]:
        """Return the migrations that the schema lacks; nothing is changed.

        Raises:
            ConfigurationError: the schema is newer than this library, or the database can't hold
                all characters.
        """
        encoding = self._connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise ConfigurationError(f"the database's encoding is {encoding}; jazzmine needs UTF8")
        applied, _ = self._versions()
        known = migrations(self._component.folder)
        if applied and max(applied) > known[-1].version:
            raise ConfigurationError(
                f"schema {self._schema!r} of the database has version {max(applied)}, and this"
                f" jazzmine knows none beyond {known[-1].version}: upgrade jazzmine; what version 1"
                " stored comes over by its `jazzmine export` and `jazzmine import`"
            )
        return [step for step in known if step.version not in applied]

    def bring_up_to_date(self) -> bool:
        """Apply the migrations that are missing, and make the functions after them.

        Return whether there were any: only they may take longer than the connection's deadline.
        """
        if not self.pending():
            return False
        self._run_alone(self._apply)
        return True

    def _apply(self) -> None:
        steps = self.pending()
        self._run(MAKE_VERSIONS)
        for step in steps:
            self._run(step.sql)
            self._run(NOTE_VERSION, {"version": step.version, "name": step.name})
        for functions in function_files(self._component):
            self._run(functions)

    def change_search(self, language: str | None) -> None:
        """Add the search index, make it anew and empty for another language, or remove it.

        The language is that of the stems, empty for none; None removes the index.
        """

        def change() -> None:
            _, stored = self._versions()
            if stored == language:
                return
            if language is None:
                self._run(REMOVE_TRIGGERS + REMOVE_TABLE)
                self._run(REMOVE_NOTE)
                return
            table = MAKE_TABLE if stored is None else EMPTY_TABLE
            self._run(table + make_triggers(language))
            self._run(NOTE_SEARCH, {"language": language})

        self._run_alone(change)

    def _versions(self) -> tuple[list[int], str | None]:
        """Return the numbers of the migrations, and the language of the search index, if any."""
        names = {"schema": self._schema, "versions": self._component.versions}
        if not self._run(FIND_VERSIONS, names):
            return [], None
        applied, note = (self._run(READ_VERSIONS))[0]
        search = read_state(note)
        return applied or [], None if search is None else search.language

    def _run(self, statements: str, values: Mapping[str, object] | None = None) -> list[Any]:
        statements = statements.replace("$versions", self._component.versions)
        return self._connection.run(statements, values, self._schema, prepare=False)

    def _run_alone(self, change: Work[None]) -> None:
        """Change the schema in one transaction; other processes wait for the first.

        `change` may be called again after it had to wait for a lock.
        """
        config, deadline = self._config, Deadline(self._config.migration_timeout)
        # The server ends it in time, if it can be reached.
        self._connection.deadline = Deadline(config.migration_timeout + config.timeout)
        try:
            for attempt, pause in enumerate(backoff(0.05, 2.0)):
                with suppress(errors.LockNotAvailable):
                    with self._connection.transaction():
                        ms = str(min(milliseconds(deadline.remaining()), 2**31 - 1))
                        self._run(LONG_TRANSACTION, {"ms": ms})
                        if (self._run(TRY_LOCK, {"schema": self._schema}))[0][0]:
                            self._run(SHORT_LOCKS)
                            change()
                            return
                if not attempt:
                    logger.info(
                        "another session is using or changing the tables in schema %r of the"
                        " database; waiting for it, for %.0f s at most",
                        self._schema,
                        deadline.remaining(),
                    )
                if pause > deadline.remaining():
                    break
                sleep(pause)
        except errors.QueryCanceled:
            pass  # by the server, at the same time
        except (errors.DuplicateTable, errors.DuplicateObject, errors.WrongObjectType) as error:
            raise ConfigurationError(
                f"schema {self._schema!r} holds an object that jazzmine did not make, and whose"
                f" name it needs: {error.diag.message_primary}; nothing was changed. Give jazzmine"
                " a schema of its own, by the key 'schema'; `jazzmine adopt` copies what version"
                " 0.1 has stored"
            ) from error
        raise StoreUnavailableError(
            f"the tables in schema {self._schema!r} were not brought up to date within the"
            f" migration_timeout of {self._config.migration_timeout:g} s; perhaps another session"
            " holds a lock on them"
        )
