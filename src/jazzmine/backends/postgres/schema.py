"""The version of the schema, its migrations, and the statements that run them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

from jazzmine.deadline import milliseconds

__all__ = [
    "DECLARE_ROWS",
    "LOCK",
    "LONG_TRANSACTION",
    "MAKE_SCHEMA",
    "MAKE_VERSIONS",
    "MEMORY",
    "MESSAGES",
    "NOTE_VERSION",
    "READ_AT_ONE_MOMENT",
    "READ_VERSION",
    "STATE",
    "TRY_LOCK",
    "Component",
    "Migration",
    "State",
    "bind",
    "in_ms",
    "migrations",
    "quoted",
]

# The first key of the lock is an arbitrary constant, the second one distinguishes schemas.
TRY_LOCK = "SELECT pg_try_advisory_xact_lock(1784772461, hashtext(%(schema)s))"
LOCK = "SELECT pg_advisory_xact_lock(1784772461, hashtext(%(schema)s))"

# The limits that a role or a server may set are for calls, which are shorter than such a
# transaction. Numbers are rounded if `extra_float_digits` is below 1.
LONG_TRANSACTION = """
SELECT set_config('statement_timeout', %(ms)s, true), set_config('lock_timeout', '0', true),
    set_config('idle_in_transaction_session_timeout', '0', true),
    set_config('extra_float_digits', '1', true)
"""

READ_AT_ONE_MOMENT = b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
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
CREATE TABLE IF NOT EXISTS $schema.$versions (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""
READ_VERSION = "SELECT coalesce(max(version), 0) FROM $schema.$versions"
NOTE_VERSION = """
INSERT INTO $schema.$versions (version, name) VALUES (%(version)s, %(name)s)
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
    """The tables of one kind of store. They may share a schema with those of the other kind.

    Args:
        folder: the folder of its migrations.
        versions: the table of the migrations that were applied.
        rights: the rights that a store needs on each table.
        functions: the functions that a store calls.
        has_leases: whether its writes are fenced by leases (see `leases`).
    """

    folder: str
    versions: str
    rights: Mapping[str, tuple[str, ...]]
    functions: tuple[str, ...]
    has_leases: bool


_ALL = ("SELECT", "INSERT", "UPDATE", "DELETE")

MESSAGES = Component(
    "migrations",
    "jazzmine_migrations",
    # Locking a row requires the right to update.
    {"conversations": _ALL, "messages": _ALL, "turn_traces": _ALL, "jazzmine_leases": _ALL},
    (
        "jazzmine_message_numbers",
        "jazzmine_lock_conversations",
        "jazzmine_lock_to_delete",
        "jazzmine_append",
        "jazzmine_append_to_each",
        "jazzmine_newest",
        "jazzmine_delete_message",
        "jazzmine_rewind",
        "jazzmine_forked_id",
        "jazzmine_fork_source",
        "jazzmine_trace_numbers",
        "jazzmine_fork",
        "jazzmine_oldest_messages",
        "jazzmine_delete_some",
        "jazzmine_erase",
        "jazzmine_prune",
    ),
    has_leases=True,
)
MEMORY = Component(
    "memory_migrations",
    "jazzmine_memory_migrations",
    {"working_memory": _ALL, "working_memory_corrupt": _ALL},
    (
        "jazzmine_memory_delete",
        "jazzmine_memory_erase",
        "jazzmine_memory_hand_over",
        "jazzmine_memory_head",
        "jazzmine_memory_release",
        "jazzmine_memory_result",
        "jazzmine_memory_results",
        "jazzmine_memory_save",
        "jazzmine_memory_take",
    ),
    has_leases=False,
)


@functools.cache
def migrations(folder: str = "migrations") -> tuple[Migration, ...]:
    """Return all migrations of a component in order; it has the version of the last one."""
    found = resources.files("jazzmine.backends.postgres").joinpath(folder)
    files = sorted(
        (file for file in found.iterdir() if file.name.endswith(".sql")), key=lambda f: f.name
    )
    return tuple(
        Migration(int(file.name[:4]), file.name[5:-4], file.read_text(encoding="utf-8"))
        for file in files
    )


def in_ms(seconds: float) -> int:
    """Return a time for the parameter of `LONG_TRANSACTION`, in which zero would be no limit."""
    return min(milliseconds(seconds), 2**31 - 1)


def quoted(schema: str) -> str:
    """Return a schema's name as a quoted identifier; the configuration refuses quotes in it."""
    return f'"{schema}"'


@functools.lru_cache(maxsize=1024)
def bind(sql: str, schema: str, versions: str = "") -> bytes:
    """Return a statement with the names of a schema and of its table of versions."""
    return sql.replace("$schema", quoted(schema)).replace("$versions", versions).encode()
