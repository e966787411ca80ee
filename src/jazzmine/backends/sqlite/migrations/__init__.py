"""The migrations of a database: numbered files in one folder for each component.

A component is a group of tables which one kind of store uses. Several may share a database; each
has its own numbers. A migration runs once, in a transaction.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import NamedTuple

from jazzmine.backends.sqlite.file_check import APPLICATION_ID, FORMAT, stored_version

_MAKE_TABLE = """
CREATE TABLE IF NOT EXISTS jazzmine_migrations (
    component  TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    applied_at TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (component, version)
) WITHOUT ROWID
"""
_NOTE = "INSERT INTO jazzmine_migrations (component, version, name) VALUES (?, ?, ?)"


class Component(NamedTuple):
    """The tables that one kind of store uses.

    Args:
        name: the name of their folder of migrations.
        views: the views on them by name, as SQL; each migration makes all of them anew.
    """

    name: str
    views: Mapping[str, str] = MappingProxyType({})


class Migration(NamedTuple):
    """One migration of a component's tables."""

    version: int
    name: str
    sql: str


@functools.cache
def migrations(component: str) -> tuple[Migration, ...]:
    """Return all migrations of a component in order, from the files in its folder."""
    folder = resources.files(__name__).joinpath(component)
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda f: f.name
    )
    return tuple(
        Migration(int(file.name[:4]), file.name[5:-4], file.read_text(encoding="utf-8"))
        for file in files
    )


def migrate(connection: sqlite3.Connection, component: Component) -> None:
    """Create or change the tables of a component; a write transaction must have begun."""
    pending = migrations(component.name)[stored_version(connection, component.name) :]
    if not pending:
        return
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute(_MAKE_TABLE)
    for view in component.views:
        connection.execute(f"DROP VIEW IF EXISTS {view}")
    for migration in pending:
        _execute_all(connection, migration.sql)
        connection.execute(_NOTE, [component.name, migration.version, migration.name])
    for view, query in component.views.items():
        connection.execute(f"CREATE VIEW {view} AS {query}")


def _execute_all(connection: sqlite3.Connection, sql: str) -> None:
    # The driver's executescript() would commit the transaction first.
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
