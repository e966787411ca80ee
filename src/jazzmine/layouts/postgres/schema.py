"""The schema: its version, the migrations that lead to it, and the statements around them."""

from __future__ import annotations

import functools
from importlib import resources
from typing import NamedTuple

__all__ = [
    "HAS_SCHEMA",
    "HAS_VERSIONS",
    "LOCK",
    "MAKE_SCHEMA",
    "MAKE_VERSIONS",
    "NOTE_VERSION",
    "READ_VERSION",
    "Migration",
    "bind",
    "migrations",
    "quoted",
]

# The first key of the lock is an arbitrary number of our own, the second tells schemas apart.
LOCK = "SELECT pg_advisory_xact_lock(1784772461, hashtext(%(schema)s))"

HAS_SCHEMA = "SELECT to_regnamespace(%(schema)s) IS NOT NULL"
MAKE_SCHEMA = "CREATE SCHEMA IF NOT EXISTS $schema"

HAS_VERSIONS = "SELECT to_regclass(%(schema)s || '.jazzmine_migrations') IS NOT NULL"
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


class Migration(NamedTuple):
    """One step of the schema."""

    version: int
    name: str
    sql: str


@functools.cache
def migrations() -> tuple[Migration, ...]:
    """Return all steps in their order; the last one's version is that of the schema."""
    folder = resources.files("jazzmine.layouts.postgres").joinpath("migrations")
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda f: f.name
    )
    return tuple(
        Migration(int(file.name[:4]), file.name[5:-4], file.read_text(encoding="utf-8"))
        for file in files
    )


def quoted(schema: str) -> str:
    """Return a schema's name as an identifier; the configuration lets no quotes pass."""
    return f'"{schema}"'


@functools.lru_cache(maxsize=1024)
def bind(sql: str, schema: str) -> bytes:
    """Return a statement for the tables of one schema."""
    return sql.replace("$schema", quoted(schema)).encode()
