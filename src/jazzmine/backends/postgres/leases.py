"""Fencing: an abandoned write cannot take effect after its lease is retired.

Each connection has a lease, a row with a random id. Every write ends with an update of the lease of
its connection, and fails if the lease is retired (see `functions`). A write that is running when
its lease is retired is either committed by then or fails, and one that reaches the server later
changes nothing. This is also true with a connection pooler, where the server process of a write
is not known.

The lease counts the writes of its connection and stores the answer of the last one: so a write
whose reply was lost is repeated only if it has not taken effect. An answer may contain a user's id
or text, an edited conversation for example. Erasing a user deletes such answers.

The role needs SELECT, INSERT, UPDATE and DELETE on the table.
"""

from __future__ import annotations

import secrets

from psycopg import errors

from jazzmine.backends.postgres.schema import LEASE_GONE

__all__ = [
    "ANSWER",
    "DELETE_ALL",
    "ERASE_RESULTS",
    "LEASES",
    "MAKE",
    "RETIRE",
    "SETTINGS",
    "WRITES_OF_AN_ID",
    "WRONG_SETTINGS",
    "is_lease_gone",
    "new_id",
]

LEASES = "jazzmine_leases"

# While an old snapshot is in use, the server keeps each version of a row, and a look-up by id reads
# all versions with this id. So a lease gets a new id after this number of writes.
WRITES_OF_AN_ID = 256

# Settings with which a store would go wrong, what it needs, and what is replaced by that. Functions
# that lock rows and then read what was committed before need READ COMMITTED; numbers are rounded
# with less than one extra digit.
_NEEDED = f"""
    ('default_transaction_isolation', 'read committed', ARRAY['repeatable read', 'serializable']),
    ('extra_float_digits', '1', ARRAY{[str(digits) for digits in range(-15, 1)]})
"""

# Besides, the server cancels a statement whose client has disappeared, or whose reply the network
# does not carry, unless that is set already.
# A connection pooler, which reports its own process ids, shares sessions among clients, so nothing
# is set there. A setting that the server does not have is not changed.
SETTINGS = f"""
SELECT set_config(name, value, false)
FROM (VALUES
    ('statement_timeout', %(timeout)s, ARRAY['0']),
    ('client_connection_check_interval', %(interval)s, ARRAY['0']),
    ('tcp_user_timeout', %(timeout)s, ARRAY['0']),
    {_NEEDED}
) AS settings (name, value, replaced)
WHERE pg_backend_pid() = %(pid)s AND current_setting(name, true) = ANY(replaced)
"""

# The settings that stay wrong behind a pooler.
WRONG_SETTINGS = f"""
SELECT quote_ident(current_user), name, current_setting(name), value
FROM (VALUES {_NEEDED}) AS settings (name, value, replaced)
WHERE pg_backend_pid() <> %(pid)s AND current_setting(name) = ANY(replaced)
"""

# Leases of processes that ended without closing their store are deleted a day later. If such a
# lease is still in use, one write of its connection is repeated.
MAKE = f"""
WITH swept AS (
    DELETE FROM $schema.{LEASES} WHERE id IN (
        SELECT id FROM $schema.{LEASES} WHERE made_at < now() - interval '1 day'
        LIMIT 1000 FOR UPDATE SKIP LOCKED)),
made AS (INSERT INTO $schema.{LEASES} (id, store) VALUES (%(lease)s, %(store)s))
{SETTINGS}"""

RETIRE = f"""
UPDATE $schema.{LEASES} SET is_retired = true WHERE id = ANY(%(leases)s::bigint[])
RETURNING id, calls, result
"""

# The answer that was too long to be sent while the write held its locks.
ANSWER = f"SELECT result FROM $schema.{LEASES} WHERE id = %(lease)s"

DELETE_ALL = f"DELETE FROM $schema.{LEASES} WHERE store = %(store)s"

# Returns how many answers with the user's id or text are left. A locked lease is skipped, because
# its transaction may wait for rows that another one has locked; it replaces the result, or fails.
ERASE_RESULTS = f"""
WITH erased AS (
    UPDATE $schema.{LEASES} SET result = NULL, users = NULL WHERE id IN (
        SELECT id FROM $schema.{LEASES} WHERE %(user)s = ANY(users) FOR UPDATE SKIP LOCKED)
    RETURNING id)
SELECT count(*) FROM $schema.{LEASES}
WHERE %(user)s = ANY(users) AND id NOT IN (SELECT id FROM erased)
"""


def new_id() -> int:
    """Return a random id of a lease or a store; a sequence would restart after a crash."""
    return secrets.randbits(63)


def is_lease_gone(error: BaseException) -> bool:
    """Return whether a write failed, and changed nothing, because its lease is retired."""
    return isinstance(error, errors.Error) and error.sqlstate == LEASE_GONE
