"""Fencing: an abandoned write cannot take effect after its lease is retired.

Each connection has a lease, a row with a random id. Every write updates the lease of its
connection in the same statement, and fails if the lease is retired. A write that is running when
its lease is retired is either committed by then or fails, and one that reaches the server later
changes nothing. This is also true with a connection pooler, where the server process of a write
is not known.

The lease counts the writes of its connection and stores the result of the last one: so a write
whose reply was lost is repeated only if it has not taken effect.

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

# While an old snapshot is in use, the server keeps each version of a row, and a look-up by id reads
# all versions with this id. So a lease gets a new id after this number of writes.
WRITES_OF_AN_ID = 256

# Leases of processes that ended without closing their store are deleted a day later. If such a
# lease is still in use, one write of its connection is repeated.
#
# The settings of the session make the server cancel a statement whose client has disappeared. A
# connection pooler, which reports its own process ids, shares sessions among clients, so nothing
# is set there. A setting that the server does not have, or that is set already, is not changed.
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
    # The server runs the second part although nothing reads it, and it violates NOT NULL.
    return f"""
lease AS (
    UPDATE $schema.{LEASES} SET id = %(next_lease)s, calls = %(calls)s, written = {written}
    WHERE id = %(lease)s AND NOT is_retired RETURNING id),
fence AS (
    INSERT INTO $schema.{LEASES} (id, store) SELECT NULL, 0 WHERE NOT EXISTS (SELECT FROM lease))
"""


@functools.lru_cache(maxsize=256)
def fenced(sql: str) -> str:
    """Return a write with a fence, which has the parameters `lease`, `next_lease` and `calls`."""
    statement = sql.lstrip()
    if statement.startswith("WITH"):
        return f"WITH {_fence('NULL')}, {statement.removeprefix('WITH')}"
    return f"WITH {_fence('NULL')} {statement}"


@functools.lru_cache(maxsize=256)
def counted(sql: str) -> str:
    """Return a single write with a fence, which returns the number of rows that it wrote."""
    fence = _fence("(SELECT count(*) FROM main)")
    return f"WITH main AS ({sql} RETURNING 1), {fence} SELECT count(*) FROM main"


def new_id() -> int:
    """Return a random id of a lease or a store; a sequence would restart after a crash."""
    return secrets.randbits(63)


def is_lease_gone(error: BaseException) -> bool:
    """Return whether a write failed, and changed nothing, because its lease is retired."""
    return isinstance(error, errors.NotNullViolation) and error.diag.table_name == LEASES
