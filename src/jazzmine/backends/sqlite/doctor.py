"""Checks of a database in a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from jazzmine.backends.sqlite.connection import file_uri
from jazzmine.backends.sqlite.errors import translated
from jazzmine.backends.sqlite.migrations import Component, migrate
from jazzmine.findings import Finding, failed, fine

_RESTORE = "restore the file from a backup"


def check_database(path: str, component: Component) -> Iterator[Finding]:
    """Yield what the tables of a component lack, and what is damaged; all of the file is read."""
    is_fine = True
    try:
        with (
            closing(sqlite3.connect(file_uri(path, "mode=rw"), uri=True)) as stored,
            closing(sqlite3.connect(":memory:")) as model,
        ):
            migrate(model, component)
            names = {name for (name,) in stored.execute("SELECT name FROM sqlite_master")}
            query = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL"
            for kind, name, table, sql in model.execute(query):
                if name not in names and (kind in ("table", "view") or table in names):
                    is_fine = False
                    cure = _RESTORE if kind == "table" else f"{' '.join(sql.split())};"
                    yield failed(f"the {kind} {name} is missing", cure)
            (state,) = stored.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise translated(error, path) from error
    if state != "ok":
        yield failed(f"{path} is damaged: {state}", _RESTORE)
    elif is_fine:
        yield fine("all tables and indexes are there, and not damaged")
