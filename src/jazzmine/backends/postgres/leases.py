"""The fence: a write that was given up cannot take effect once its lease is retired.

Each connection has a lease, a row with a random id. Every write updates the lease of its
connection in the same statement, and fails if the lease is retired. A write that is under way when
its lease is retired is either committed by then or fails, and one that reaches the server later
changes nothing. This holds behind a connection pooler too, where the server process of a write is
not known.

The lease counts the writes of its connection and keeps what the last one did: so a write whose
reply was lost is sent again only if it has not taken effect.

The role needs SELECT, INSERT, UPDATE and DELETE on the table.
"""

from __future__ import annotations

import functools
import secrets

from psycopg import errors

__all__ = [
    "DELETE_ALL",
    "LEASES",
    "MAKE",
    "RETIRE",
    "WRITES_OF_AN_ID",
    "counted",
    "fenced",
    "is_lease_gone",
    "new_id",
]

LEASES = "jazzmine_leases"

# While an old snapshot is in use, the server keeps each version of a row, and looks at all versions
# that have the id which it looks for. So a lease gets another id now and then.
WRITES_OF_AN_ID = 256

# Leases of processes that ended without closing their store are deleted a day later. Deleting that
# of a connection which is still in use costs one repetition of a write.
#
# The session's settings take a statement off the server whose client went away without a word.
# Behind a connection pooler, which shows process ids of its own, they would be another client's
# too. A setting that the server does not know, or that somebody else made, is left alone.
MAKE = f"""
WITH swept AS (
    DELETE FROM $schema.{LEASES} WHERE id IN (
        SELECT id FROM $schema.{LEASES} WHERE made_at < now() - interval '1 day'
        LIMIT 1000 FOR UPDATE SKIP LOCKED)),
made AS (INSERT INTO $schema.{LEASES} (id, store) VALUES (%(lease)s, %(store)s))
SELECT set_config(name, milliseconds, false)
FROM (VALUES ('statement_timeout', %(timeout)s), ('client_connection_check_interval', '500'))
    AS settings (name, milliseconds)
WHERE pg_backend_pid() = %(pid)s AND current_setting(name, true) = '0'
"""

RETIRE = f"""
UPDATE $schema.{LEASES} SET is_retired = true WHERE id = ANY(%(leases)s::bigint[])
RETURNING id, calls, written
"""

DELETE_ALL = f"DELETE FROM $schema.{LEASES} WHERE store = %(store)s"


def _fence(written: str) -> str:
    # The second part is run to its end although nothing reads it, and violates NOT NULL.
    return f"""
lease AS (
    UPDATE $schema.{LEASES} SET id = %(next_lease)s, calls = %(calls)s, written = {written}
    WHERE id = %(lease)s AND NOT is_retired RETURNING id),
fence AS (
    INSERT INTO $schema.{LEASES} (id, store) SELECT NULL, 0 WHERE NOT EXISTS (SELECT FROM lease))
"""


@functools.lru_cache(maxsize=256)
def fenced(sql: str) -> str:
    """Return a write that also takes `lease`, `next_lease` and `calls`."""
    statement = sql.lstrip()
    if statement.startswith("WITH"):
        return f"WITH {_fence('NULL')}, {statement.removeprefix('WITH')}"
    return f"WITH {_fence('NULL')} {statement}"


@functools.lru_cache(maxsize=256)
def counted(sql: str) -> str:
    """Return the same for a write without parts, as a query for how many rows it wrote."""
    fence = _fence("(SELECT count(*) FROM main)")
    return f"WITH main AS ({sql} RETURNING 1), {fence} SELECT count(*) FROM main"


def new_id() -> int:
    """Return the id of a lease or a store: random, since a sequence starts anew after a crash."""
    return secrets.randbits(63)


def is_lease_gone(error: BaseException) -> bool:
    """Whether a fenced write was refused, and changed nothing, since its lease is retired."""
    return isinstance(error, errors.NotNullViolation) and error.diag.table_name == LEASES
