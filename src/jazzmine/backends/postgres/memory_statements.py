"""The statements of working memory, by name; `$schema` stands for the schema of the tables.

Each is a transaction of its own, and may be repeated. What decides about a lock is a function on
the server: see `memory_migrations`. Times are in ms.
"""

from __future__ import annotations

__all__ = [
    "CONVERSATIONS_OF",
    "COUNT",
    "DELETE",
    "ERASE",
    "EXTEND",
    "LOAD",
    "RELEASE",
    "RENEW",
    "SAVE",
    "SET_ASIDE",
    "SWEEP",
    "SWEEP_CORRUPT",
    "SWEPT_AT_ONCE",
    "TAKE",
    "channel",
]

SWEPT_AT_ONCE = 500

TAKE = """
SELECT wait_ms, data_found FROM $schema.jazzmine_memory_take(
    %(id)s, %(token)s, %(lock)s, %(released)s, %(place)s::integer, %(listens)s)
"""

SAVE = """
SELECT $schema.jazzmine_memory_save(
    %(id)s, %(token)s, %(data)s, %(user)s, %(format)s::integer, %(ttl)s, %(kept)s)
"""

DELETE = "SELECT $schema.jazzmine_memory_delete(%(id)s, %(token)s, %(kept)s)"

ERASE = "SELECT $schema.jazzmine_memory_erase(%(id)s, %(token)s, %(user)s, %(kept)s)"

RELEASE = "SELECT $schema.jazzmine_memory_release(%(id)s, %(token)s, %(kept)s)"

EXTEND = """
UPDATE $schema.working_memory
SET lock_expires_at = clock_timestamp() + %(lock)s * interval '1 millisecond'
WHERE conversation_id = %(id)s AND lock_token = %(token)s AND lock_expires_at > clock_timestamp()
RETURNING set_config('synchronous_commit', 'off', true)
"""

LOAD = """
SELECT data FROM $schema.working_memory
WHERE conversation_id = %(id)s AND data IS NOT NULL AND expires_at > clock_timestamp()
"""

RENEW = """
UPDATE $schema.working_memory
SET expires_at = clock_timestamp() + %(ttl)s * interval '1 millisecond',
    sweep_after = greatest(sweep_after, date_trunc('hour',
        clock_timestamp() + %(ttl)s * interval '1 millisecond' + interval '1 hour'))
WHERE conversation_id = %(id)s AND data IS NOT NULL AND expires_at > clock_timestamp()
RETURNING data
"""

CONVERSATIONS_OF = """
SELECT conversation_id FROM $schema.working_memory WHERE user_id = %(user)s
UNION
SELECT conversation_id FROM $schema.working_memory_corrupt WHERE user_id = %(user)s
"""

COUNT = """
SELECT count(*) FROM $schema.working_memory
WHERE data IS NOT NULL AND expires_at > clock_timestamp()
"""

# A memory that was saved since, or that is gone, is left alone: so this needs no lock.
SET_ASIDE = """
WITH unreadable AS (
    SELECT conversation_id, user_id FROM $schema.working_memory
    WHERE conversation_id = %(id)s AND data = %(data)s FOR UPDATE),
moved AS (
    UPDATE $schema.working_memory AS memory SET data = NULL, user_id = NULL FROM unreadable
    WHERE memory.conversation_id = unreadable.conversation_id RETURNING unreadable.user_id)
INSERT INTO $schema.working_memory_corrupt AS stored (conversation_id, user_id, expires_at, data)
SELECT %(id)s, user_id, now() + interval '7 days', %(data)s FROM moved
ON CONFLICT (conversation_id) DO UPDATE
SET user_id = excluded.user_id, expires_at = excluded.expires_at, data = excluded.data
RETURNING 1
"""

SWEEP = f"""
DELETE FROM $schema.working_memory WHERE conversation_id IN (
    SELECT conversation_id FROM $schema.working_memory
    WHERE sweep_after < now() AND expires_at < now() AND lock_expires_at < now()
    ORDER BY sweep_after LIMIT {SWEPT_AT_ONCE} FOR UPDATE SKIP LOCKED)
RETURNING 1
"""

SWEEP_CORRUPT = f"""
DELETE FROM $schema.working_memory_corrupt WHERE conversation_id IN (
    SELECT conversation_id FROM $schema.working_memory_corrupt
    WHERE expires_at < now() LIMIT {SWEPT_AT_ONCE} FOR UPDATE SKIP LOCKED)
RETURNING 1
"""


def channel(store: str) -> str:
    """Return the channel on which a store is notified that a lock was handed over to it."""
    return f"jazzmine_memory_{store}"
