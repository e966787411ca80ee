"""The version of the schema, its migrations, and the statements that run them."""

from __future__ import annotations

import functools
from importlib import resources
from typing import NamedTuple

__all__ = [
    "LIMIT_TIME",
    "LOCK",
    "MAKE_SCHEMA",
    "MAKE_VERSIONS",
    "NOTE_VERSION",
    "READ_VERSION",
    "STATE",
    "TRY_LOCK",
    "Migration",
    "State",
    "bind",
    "migrations",
    "quoted",
]

# The first key of the lock is an arbitrary constant, the second one distinguishes schemas.
TRY_LOCK = "SELECT pg_try_advisory_xact_lock(1784772461, hashtext(%(schema)s))"
LOCK = "SELECT pg_advisory_xact_lock(1784772461, hashtext(%(schema)s))"

# The limits that a role or a server may set are for calls, which are shorter than migrations.
LIMIT_TIME = """
SELECT set_config('statement_timeout', %(ms)s, true), set_config('lock_timeout', '0', true),
    set_config('idle_in_transaction_session_timeout', '0', true)
"""

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
    ON versions.relnamespace = schema.oid AND versions.relname = 'jazzmine_migrations'
"""

MAKE_SCHEMA = "CREATE SCHEMA IF NOT EXISTS $schema"
MAKE_VERSIONS = """
CREATE TABLE IF NOT EXISTS $schema.jazzmine_migrations (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""
READ_VERSION = "SELECT coalesce(max(version), 0) FROM $schema.jazzmine_migrations"
NOTE_VERSION = """
INSERT INTO $schema.jazzmine_migrations (version, name) VALUES (%(version)s, %(name)s)
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
    """One migration of the schema."""

    version: int
    name: str
    sql: str


@functools.cache
def migrations() -> tuple[Migration, ...]:
    """Return all migrations in order; the schema has the version of the last one."""
    folder = resources.files("jazzmine.backends.postgres").joinpath("migrations")
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda f: f.name
    )
    return tuple(
        Migration(int(file.name[:4]), file.name[5:-4], file.read_text(encoding="utf-8"))
        for file in files
    )


def quoted(schema: str) -> str:
    """Return a schema's name as a quoted identifier; the configuration refuses quotes in it."""
    return f'"{schema}"'


@functools.lru_cache(maxsize=1024)
def bind(sql: str, schema: str) -> bytes:
    """Return a statement with the name of a schema in place of `$schema`."""
    return sql.replace("$schema", quoted(schema)).encode()
