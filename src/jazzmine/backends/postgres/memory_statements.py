"""The statements of working memory, by name; `$schema` stands for the schema of the tables.

Each is a transaction of its own, and may be repeated. Times are in ms. A row that has expired
counts as none. A statement that has not written returns what is stored in the same round trip, as
it was when the statement began: if it has waited since, and what it returns would have let it write
or lock, the caller asks again.
"""

from __future__ import annotations

SWEPT_AT_ONCE = 500

_EXPIRES_AT = "now() + %(ttl)s * interval '1 millisecond'"

# Most saves leave this column, which has an index, as it is.
_SWEEP_AFTER = f"date_trunc('hour', {_EXPIRES_AT} + interval '1 hour')"

# A lock need not survive a crash of the server, whose clients it has disconnected.
_NO_FLUSH = "set_config('synchronous_commit', 'off', true)"

# The lock is free, or held with the token.
_IS_FREE = """(memory.lock_token IS NULL OR memory.lock_token = %(token)s
    OR memory.lock_expires_at <= now())"""

_IS_READ = f"""memory.conversation_id = %(conversation_id)s
    AND left(memory.marks, 16) = %(read_mark)s AND memory.expires_at > now() AND {_IS_FREE}"""

# What is stored, and who else holds the lock for how long, in s.
_STORED = f"""memory.marks, memory.data, memory.user_id,
    CASE WHEN NOT {_IS_FREE} THEN memory.lock_holder END,
    extract(epoch FROM now() - memory.lock_taken_at)::float8"""


def _or_stored(change: str, done: str = "NULL, NULL::bytea, NULL") -> str:
    """Return the statement that makes a change, and returns what is stored if it does not apply.

    Args:
        change: returns a row where it applies.
        done: what the statement returns then.
    """
    return f"""
WITH changed AS ({change})
SELECT true, {done}, NULL, NULL::float8 FROM changed
UNION ALL
SELECT false, {_STORED} FROM $schema.working_memory AS memory
WHERE memory.conversation_id = %(conversation_id)s AND memory.expires_at > now()
    AND NOT EXISTS (SELECT FROM changed)
"""


WRITE = _or_stored(f"""
    UPDATE $schema.working_memory AS memory
    SET marks = left(%(mark)s || memory.marks, 256), data = %(data)s::bytea,
        user_id = %(user_id)s, format = %(format)s::integer, expires_at = {_EXPIRES_AT},
        sweep_after = {_SWEEP_AFTER}, lock_token = NULL
    WHERE {_IS_READ}
    RETURNING 1""")

# The same where nothing is stored.
CREATE = _or_stored(f"""
    INSERT INTO $schema.working_memory AS memory
        (conversation_id, marks, data, user_id, format, expires_at, sweep_after)
    VALUES (%(conversation_id)s, %(mark)s, %(data)s::bytea, %(user_id)s, %(format)s::integer,
        {_EXPIRES_AT}, {_SWEEP_AFTER})
    ON CONFLICT (conversation_id) DO UPDATE
    SET marks = excluded.marks, data = excluded.data, user_id = excluded.user_id,
        format = excluded.format, expires_at = excluded.expires_at,
        sweep_after = excluded.sweep_after, lock_token = NULL
    WHERE memory.expires_at <= now()
    RETURNING 1""")

DELETE = _or_stored(f"DELETE FROM $schema.working_memory AS memory WHERE {_IS_READ} RETURNING 1")

LOAD = """
SELECT marks, data, user_id FROM $schema.working_memory
WHERE conversation_id = %(conversation_id)s AND expires_at > now()
"""

RENEW = f"""
UPDATE $schema.working_memory AS memory
SET expires_at = {_EXPIRES_AT}, sweep_after = {_SWEEP_AFTER}
WHERE conversation_id = %(conversation_id)s AND expires_at > now()
RETURNING marks, data, user_id
"""

# Take the lock, renew it or let it end, with the time to live.
LOCK = _or_stored(
    f"""
    UPDATE $schema.working_memory AS memory
    SET lock_token = %(token)s, lock_holder = %(holder)s,
        lock_taken_at = CASE WHEN %(renews)s THEN memory.lock_taken_at ELSE now() END,
        lock_expires_at = now() + %(lasts)s * interval '1 millisecond',
        expires_at = {_EXPIRES_AT}, sweep_after = {_SWEEP_AFTER}
    WHERE memory.conversation_id = %(conversation_id)s AND memory.expires_at > now() AND {_IS_FREE}
        AND (memory.lock_token = %(token)s OR NOT %(renews)s)
    RETURNING marks, data, user_id, {_NO_FLUSH}""",
    "marks, data, user_id",
)

CONVERSATIONS = """
SELECT conversation_id FROM $schema.working_memory
WHERE (%(user_id)s::text IS NULL OR user_id = %(user_id)s) AND expires_at > now()
LIMIT %(limit)s::bigint
"""

ERASE_EXPIRED = """
DELETE FROM $schema.working_memory WHERE user_id = %(user_id)s AND expires_at <= now() RETURNING 1
"""

SWEEP = f"""
DELETE FROM $schema.working_memory WHERE conversation_id IN (
    SELECT conversation_id FROM $schema.working_memory
    WHERE sweep_after < now() AND expires_at < now()
    ORDER BY sweep_after LIMIT {SWEPT_AT_ONCE} FOR UPDATE SKIP LOCKED)
RETURNING 1
"""
