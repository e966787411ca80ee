"""The tables of the stores in a schema: their migrations and functions, and what applies these."""

from __future__ import annotations

import functools
from importlib import resources
from typing import NamedTuple

# The first key of the lock is an arbitrary constant, the second one distinguishes schemas.
TRY_LOCK = "SELECT pg_try_advisory_xact_lock(1784772461, hashtext(%(schema)s))"

# The limits of a role or a server, and those that a store sets, are for calls, which are shorter
# than such a transaction. PostgreSQL 17 has `transaction_timeout`.
LONG_TRANSACTION = """
SELECT set_config('statement_timeout', %(ms)s, true), set_config('lock_timeout', '0', true),
    set_config('idle_in_transaction_session_timeout', '0', true),
    (SELECT set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout')
"""

# While a migration waits for a lock on a table, every later write of the table waits behind it.
SHORT_LOCKS = "SET LOCAL lock_timeout = 100"

# Functions such as `to_regclass` would not see what another process has committed during the
# transaction.
FIND_VERSIONS = """
SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %(schema)s AND relname = %(versions)s
"""
# PostgreSQL asks for the right to create a schema, also where one is there.
MAKE_VERSIONS = """
DO $body$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = btrim('$schema', '"')) THEN
        CREATE SCHEMA $schema;
    END IF;
END $body$;
CREATE TABLE IF NOT EXISTS $schema.$versions (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""
# The search for words is no migration: a schema may have it or not. Its number is above those of
# migrations, so that a version of the library that does not know of it refuses the schema.
READ_VERSIONS = """
SELECT array_agg(version) FILTER (WHERE version <> 1000), max(name) FILTER (WHERE version = 1000)
FROM $schema.$versions
"""
NOTE_VERSION = "INSERT INTO $schema.$versions (version, name) VALUES (%(version)s, %(name)s)"


class Migration(NamedTuple):
    """One migration of a component."""

    version: int
    name: str
    sql: str


class Component(NamedTuple):
    """The tables of one kind of store. They may share a schema with those of the other kinds.

    Args:
        folder: the folder of its migrations.
        versions: the table of the migrations that were applied.
        tables: the tables, and the sequences that are not columns' own.
        functions: the files of its functions.
    """

    folder: str
    versions: str
    tables: tuple[str, ...]
    functions: tuple[str, ...] = ()


MESSAGE_TABLES = Component(
    "migrations",
    "jazzmine_migrations",
    ("conversations", "messages", "turn_traces", "message_words"),
    ("append", "erase", "fork", "index", "pop", "prune", "rewind", "store"),
)
ITEM_TABLES = Component(
    "item_migrations",
    "jazzmine_item_migrations",
    ("memory_items", "memory_item_revisions"),
    ("items",),
)
MEMORY_TABLES = Component("memory_migrations", "jazzmine_memory_migrations", ("working_memory",))


def function_files(component: Component) -> tuple[str, ...]:
    """Return the texts of a component's files of functions; `$schema` is the only placeholder."""
    folder = resources.files("jazzmine.backends.postgres").joinpath("functions")
    return tuple(folder.joinpath(f"{name}.sql").read_text("utf-8") for name in component.functions)


@functools.cache
def migrations(folder: str = "migrations") -> tuple[Migration, ...]:
    """Return all migrations of a component in order; it has the version of the last one."""
    found = resources.files("jazzmine.backends.postgres").joinpath(folder)
    files = sorted((file.name, file) for file in found.iterdir() if file.name.endswith(".sql"))
    return tuple(
        Migration(int(name[:4]), name[5:-4], file.read_text("utf-8")) for name, file in files
    )


def quoted(schema: str) -> str:
    """Return a schema's name as a quoted identifier; the configuration refuses quotes in it."""
    return f'"{schema}"'


@functools.lru_cache(maxsize=4096)
def in_schema(sql: str, schema: str) -> bytes:
    """Return a statement with the name of a schema."""
    return sql.replace("$schema", quoted(schema)).encode()
