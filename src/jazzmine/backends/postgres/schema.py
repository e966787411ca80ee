"""The version of the schema, its migrations, and the statements that run them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

from jazzmine.backends.postgres.objects import (
    added_columns,
    created_tables,
    without_statistics,
)
from jazzmine.deadline import milliseconds

__all__ = [
    "DECLARE_ROWS",
    "ITEM_TABLES",
    "LONG_TRANSACTION",
    "MAKE_SCHEMA",
    "MAKE_VERSIONS",
    "MEMORY_TABLES",
    "MESSAGE_TABLES",
    "MISSING_RIGHTS",
    "NOTE_VERSION",
    "READ_AT_ONE_MOMENT",
    "READ_VERSION",
    "REFUSED",
    "SHORT_LOCKS",
    "STATE",
    "STORED_FUNCTIONS",
    "TRY_LOCK",
    "Component",
    "Migration",
    "Query",
    "State",
    "bind",
    "function_files",
    "function_names",
    "in_ms",
    "migrations",
    "quoted",
]

REFUSED = "JZ002"
"""The SQLSTATE of a write that would break a rule; it changed nothing."""

# The first key of the lock is an arbitrary constant, the second one distinguishes schemas.
TRY_LOCK = "SELECT pg_try_advisory_xact_lock(1784772461, hashtext(%(schema)s))"

# The limits of a role or a server, and those that a store sets, are for calls, which are shorter
# than such a transaction. Numbers are rounded if `extra_float_digits` is below 1.
# PostgreSQL 17 has `transaction_timeout`.
LONG_TRANSACTION = """
SELECT set_config('statement_timeout', %(ms)s, true), set_config('lock_timeout', '0', true),
    set_config('idle_in_transaction_session_timeout', '0', true),
    set_config('extra_float_digits', '1', true),
    (SELECT set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout')
"""

# While a migration waits for a lock on a table, every later write of the table waits behind it.
SHORT_LOCKS = "SET LOCAL lock_timeout = 100"

READ_AT_ONE_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
DECLARE_ROWS = "DECLARE jazzmine_rows NO SCROLL CURSOR FOR"

# The existing objects, the rights of the role on them, and the names of the role and database.
STATE = """
SELECT
    schema.oid IS NOT NULL,
    coalesce(has_schema_privilege(schema.oid, 'USAGE'), false),
    coalesce(has_schema_privilege(schema.oid, 'CREATE'), false),
    has_database_privilege(current_database(), 'CREATE'),
    (
        SELECT array_agg(attname::text ORDER BY attname) = '{applied_at,name,version}'
        FROM pg_attribute
        WHERE attrelid = versions.oid AND attnum > 0 AND NOT attisdropped
    ) IS TRUE AND versions.relkind = 'r',
    coalesce(has_table_privilege(versions.oid, 'SELECT'), false),
    quote_ident(current_user),
    quote_ident(current_database())
FROM (SELECT) AS one
LEFT JOIN pg_namespace AS schema ON schema.nspname = %(schema)s
LEFT JOIN pg_class AS versions
    ON versions.relnamespace = schema.oid AND versions.relname = %(versions)s
"""

MAKE_SCHEMA = "CREATE SCHEMA IF NOT EXISTS $schema"
MAKE_VERSIONS = """
CREATE TABLE $schema.$versions (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""
# The search for words is no migration: a schema may have it or not. Its number is above those of
# migrations, so that a version of the library that does not know of it refuses the schema.
READ_VERSION = """
SELECT coalesce(max(version) FILTER (WHERE version <> 1000), 0),
    max(name) FILTER (WHERE version = 1000)
FROM $schema.$versions
"""
NOTE_VERSION = """
INSERT INTO $schema.$versions (version, name) VALUES (%(version)s, %(name)s)
"""


# Each row has a right that the role lacks, the statement that grants it, or null if the table does
# not exist, and the name of the table or function.
MISSING_RIGHTS = """
SELECT wanted.privilege || ' on the table ' || wanted.name,
    'GRANT ' || wanted.privilege || ' ON ' || quote_ident(%(schema)s) || '.'
        || quote_ident(relation.relname) || ' TO ' || quote_ident(current_user),
    wanted.name
FROM unnest(%(tables)s::text[], %(privileges)s::text[]) AS wanted (name, privilege)
JOIN pg_namespace AS schema ON schema.nspname = %(schema)s
LEFT JOIN pg_class AS relation
    ON relation.relnamespace = schema.oid AND relation.relname = wanted.name
WHERE relation.oid IS NULL OR NOT has_table_privilege(relation.oid, wanted.privilege)
UNION ALL
SELECT 'EXECUTE on the function ' || function.proname,
    'GRANT EXECUTE ON FUNCTION ' || function.oid::regprocedure || ' TO '
        || quote_ident(current_user),
    function.proname
FROM pg_namespace AS schema JOIN pg_proc AS function ON function.pronamespace = schema.oid
WHERE schema.nspname = %(schema)s AND function.proname = ANY(%(functions)s::text[])
    AND NOT has_function_privilege(function.oid, 'EXECUTE')
ORDER BY 1
"""


# The functions that are there, and whether each names its own schema, as none does any more after
# that was renamed.
STORED_FUNCTIONS = """
SELECT function.proname, strpos(function.prosrc, '$schema.') > 0
    OR strpos(function.prosrc, '.') = 0
FROM pg_namespace AS schema JOIN pg_proc AS function ON function.pronamespace = schema.oid
WHERE schema.nspname = %(schema)s AND function.proname = ANY(%(functions)s::text[])
"""

# For each table the largest number that a row has, about, and the sequence of the numbers. If rows
# were copied without it, it would give numbers again. No index begins with `seq`, but the newest
# rows by their times have the largest ones, more or less.
_MESSAGE_NUMBERS = """
newest AS (
    SELECT id, seq FROM $schema.conversations ORDER BY last_updated_at DESC, seq DESC LIMIT 100
), largest (name, field, number) AS (
    SELECT 'conversations', 'seq', max(seq) FROM newest
    UNION ALL SELECT 'messages', 'seq', max(last.seq) FROM newest CROSS JOIN LATERAL (
        SELECT seq FROM $schema.messages WHERE conversation_id = newest.id
        ORDER BY timestamp DESC, seq DESC LIMIT 1) AS last
    UNION ALL SELECT 'turn_traces', 'seq', max(seq) FROM (
        SELECT seq FROM $schema.turn_traces ORDER BY started_at_ms DESC, seq DESC LIMIT 100) AS page
), numbers AS (
    SELECT *, pg_get_serial_sequence('$schema.' || name, field)::regclass AS sequence FROM largest
)
"""
_ITEM_NUMBERS = """
numbers (name, field, number, sequence) AS (
    SELECT 'memory_items', 'revision', max(revision), '$schema.memory_item_revisions'::regclass
    FROM (SELECT revision FROM $schema.memory_items
        ORDER BY updated_at DESC, revision DESC LIMIT 100) AS newest
)
"""

# Each row has the table, whether the role may read its sequence, and the statement that mends it.
_LAGGING = """
SELECT name, may_read, CASE WHEN may_read
    THEN 'SELECT setval(' || quote_literal(sequence) || ', (SELECT max(' || field
        || ') FROM $schema.' || name || '))'
    ELSE 'GRANT SELECT ON SEQUENCE ' || sequence || ' TO ' || quote_ident(current_user) END
FROM numbers CROSS JOIN has_sequence_privilege(sequence, 'SELECT, USAGE') AS may_read
WHERE CASE WHEN may_read THEN number > coalesce(pg_sequence_last_value(sequence), 0)
    ELSE sequence IS NOT NULL END
"""


class State(NamedTuple):
    """The result of `STATE` for a schema."""

    exists: bool
    may_use: bool
    may_create: bool
    may_create_schemas: bool
    has_versions: bool
    may_read_versions: bool
    role: str
    database: str


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
        rights: the rights that a store needs on each table.
        functions: the files of its functions.
        lagging: the query for the tables whose sequence is behind their rows, or cannot be read.
        has_messages: whether its messages may be searched for words, if its schema has an index.
    """

    folder: str
    versions: str
    rights: Mapping[str, tuple[str, ...]]
    functions: tuple[str, ...] = ()
    lagging: str = ""
    has_messages: bool = False


_ALL = ("SELECT", "INSERT", "UPDATE", "DELETE")

MESSAGE_TABLES = Component(
    "migrations",
    "jazzmine_migrations",
    # Locking a row requires the right to update.
    {"conversations": _ALL, "messages": _ALL, "turn_traces": _ALL},
    ("append", "erase", "fork", "index", "pop", "prune", "rewind", "store"),
    lagging=f"WITH {_MESSAGE_NUMBERS} {_LAGGING}",
    has_messages=True,
)
ITEM_TABLES = Component(
    "item_migrations",
    "jazzmine_item_migrations",
    {"memory_items": _ALL, "memory_item_revisions": ("UPDATE",)},
    ("items",),
    lagging=f"WITH {_ITEM_NUMBERS} {_LAGGING}",
)
MEMORY_TABLES = Component(
    "memory_migrations",
    "jazzmine_memory_migrations",
    {"working_memory": _ALL},
)


_FUNCTION = re.compile(r"^CREATE OR REPLACE FUNCTION \$schema\.(\w+)\(", re.MULTILINE)


def function_files(component: Component) -> tuple[str, ...]:
    """Return the texts of a component's files of functions; `$schema` is the only placeholder."""
    folder = resources.files("jazzmine.backends.postgres").joinpath("functions")
    return tuple(folder.joinpath(f"{name}.sql").read_text("utf-8") for name in component.functions)


def function_names(component: Component) -> list[str]:
    """Return the names of a component's functions."""
    return _FUNCTION.findall("\n".join(function_files(component)))


@functools.cache
def migrations(folder: str = "migrations") -> tuple[Migration, ...]:
    """Return all migrations of a component in order; it has the version of the last one."""
    found = resources.files("jazzmine.backends.postgres").joinpath(folder)
    files = sorted(
        (file for file in found.iterdir() if file.name.endswith(".sql")), key=lambda f: f.name
    )
    return tuple(
        Migration(int(file.name[:4]), file.name[5:-4], _with_tables(file.read_text("utf-8")))
        for file in files
    )


def _with_tables(sql: str) -> str:
    for name, made in _MADE.items():
        sql = sql.replace(name, made())
    return sql


_MADE = {
    "$created_tables": created_tables,
    "$added_columns": added_columns,
    "$without_statistics": without_statistics,
}


def in_ms(seconds: float) -> int:
    """Return a time for the parameter of `LONG_TRANSACTION`, in which zero would be no limit."""
    return min(milliseconds(seconds), 2**31 - 1)


def quoted(schema: str) -> str:
    """Return a schema's name as a quoted identifier; the configuration refuses quotes in it."""
    return f'"{schema}"'


class Query(NamedTuple):
    """A statement as it is sent.

    Args:
        text: with `$1` and so on for its parameters.
        names: the names of the parameters, in their order.
    """

    text: bytes
    names: tuple[str, ...]


_PARAMETER = re.compile(r"%\((\w+)\)s")


@functools.lru_cache(maxsize=4096)
def bind(sql: str, schema: str = "", versions: str = "") -> Query:
    """Return a statement with the names of a schema and of its table of versions."""
    names: dict[str, int] = {}
    text = _PARAMETER.sub(lambda found: f"${names.setdefault(found[1], len(names) + 1)}", sql)
    text = text.replace("$schema", quoted(schema)).replace("$versions", versions)
    return Query(text.encode(), tuple(names))
