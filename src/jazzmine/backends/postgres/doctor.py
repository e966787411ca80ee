"""Checks of a PostgreSQL set-up: the queries, and what their results mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from jazzmine.backends.postgres.schema import migrations, quoted
from jazzmine.backends.postgres.word_index import MAKE_TABLE
from jazzmine.findings import Finding, failed, fine, warning

__all__ = ["CLOCK", "INDEXES", "LIMITS", "check_indexes", "check_pool", "check_version"]

CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"

INDEXES = """
SELECT class.relname, index.indisvalid
FROM pg_index AS index
JOIN pg_class AS class ON class.oid = index.indexrelid
JOIN pg_namespace AS schema ON schema.oid = class.relnamespace
WHERE schema.nspname = %(schema)s
"""

# The most connections, those that ordinary roles cannot have, and the limits of role and database.
LIMITS = """
SELECT current_setting('max_connections')::int,
    current_setting('superuser_reserved_connections')::int,
    (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
    (SELECT datconnlimit FROM pg_database WHERE datname = current_database())
"""

_CREATED = re.compile(r"^CREATE INDEX (?:IF NOT EXISTS )?(\w+) (ON .*?);", re.MULTILINE | re.DOTALL)
_OLDEST = 120_000


def check_version(version: int, name: str) -> Finding:
    """Return whether a server's version is one that is supported.

    Args:
        version: as libpq numbers it: 160004 is 16.4.
    """
    if version < _OLDEST:
        return failed(f"PostgreSQL {name} is too old", "upgrade the server to 12 or newer")
    return fine(f"PostgreSQL {name}")


def check_indexes(schema: str, found: Iterable[tuple[str, bool]]) -> Iterator[Finding]:
    """Yield what is wrong with the indexes, or that nothing is.

    Args:
        found: the names of the indexes in the schema, and whether each is valid.
    """
    there = dict(found)
    is_fine = True
    wanted = _wanted()
    if "message_words_pkey" in there:
        wanted.update(_CREATED.findall(MAKE_TABLE))
    for name, definition in wanted.items():
        create = f"CREATE INDEX CONCURRENTLY {name} {definition};"
        create = " ".join(create.replace("$schema", quoted(schema)).split())
        if name not in there:
            is_fine = False
            yield failed(f"the index {name} is missing: queries that need it are slow", create)
        elif not there[name]:
            is_fine = False
            drop = f"DROP INDEX CONCURRENTLY {quoted(schema)}.{name};"
            yield failed(f"the index {name} is not valid, and is not used", f"{drop} {create}")
    if is_fine:
        yield fine("all indexes are there")


def _wanted() -> dict[str, str]:
    """Return the definitions of the indexes that the migrations leave, by name."""
    wanted: dict[str, str] = {}
    for migration in migrations():
        wanted.update(_CREATED.findall(migration.sql))
    return wanted


def check_pool(
    pool_max: int, server: int, reserved: int, role: int | None, database: int | None
) -> Finding:
    """Return whether the server grants as many connections as a pool may open.

    Args:
        role, database: their own limits; None or a negative number is none.
    """
    limits = [
        server - reserved,
        *(limit for limit in (role, database) if limit is not None and limit >= 0),
    ]
    most = min(limits)
    if pool_max > most:
        return failed(
            f"pool_max is {pool_max}, and the server grants {most} connections in all",
            f"set pool_max to less than {most} divided by the number of processes, or raise the"
            " server's max_connections",
        )
    if pool_max * 2 > most:
        return warning(
            f"one process may take {pool_max} of the {most} connections that the server grants",
            "set pool_max so that all processes together stay below that",
        )
    return fine(f"one process takes up to {pool_max} of {most} connections")
