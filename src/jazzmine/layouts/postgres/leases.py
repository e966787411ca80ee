"""The fence: a write that was given up cannot take effect once its lease is deleted.

Each connection has a lease, a row with a random id. Every write locks the lease of its connection
in the same statement, and fails if the row is gone. Deleting the row waits for a write that holds
the lock, and a write that reaches the server later changes nothing. This holds behind a connection
pooler too, where the server process of a write is not known.

The role needs SELECT, INSERT, UPDATE and DELETE on the table: a row lock takes the right to update.
"""

from __future__ import annotations

import functools
import secrets

from psycopg import errors

__all__ = ["LEASES", "MAKE", "RETIRE", "fenced", "is_lease_gone", "new_lease"]

LEASES = "jazzmine_leases"

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
made AS (INSERT INTO $schema.{LEASES} (id) VALUES (%(lease)s))
SELECT set_config(name, milliseconds, false)
FROM (VALUES ('statement_timeout', %(timeout)s), ('client_connection_check_interval', '500'))
    AS settings (name, milliseconds)
WHERE pg_backend_pid() = %(pid)s AND current_setting(name, true) = '0'
"""

# In one order: of two that delete the same leases, neither has one that the other waits for.
RETIRE = f"""
DELETE FROM $schema.{LEASES} WHERE id IN (
    SELECT id FROM $schema.{LEASES} WHERE id = ANY(%(leases)s::bigint[]) ORDER BY id FOR UPDATE)
"""

# The second part is run to its end although nothing reads it, and violates NOT NULL.
_FENCE = f"""
WITH lease AS (SELECT id FROM $schema.{LEASES} WHERE id = %(lease)s FOR KEY SHARE),
fence AS (INSERT INTO $schema.{LEASES} (id) SELECT NULL WHERE NOT EXISTS (SELECT FROM lease))
"""


def new_lease() -> int:
    """Return the id of a lease: random, since a sequence starts anew after a crash."""
    return secrets.randbits(63)


@functools.lru_cache(maxsize=256)
def fenced(sql: str) -> str:
    """Return a write that takes one more parameter: `lease`, that of its connection."""
    statement = sql.lstrip()
    if statement.startswith("WITH"):
        return f"{_FENCE}, {statement.removeprefix('WITH')}"
    return _FENCE + statement


def is_lease_gone(error: BaseException) -> bool:
    """Whether a fenced write was refused, and changed nothing, since its lease is deleted."""
    return isinstance(error, errors.NotNullViolation) and error.diag.table_name == LEASES
