"""The statements of working memory, by name; `$schema` stands for the schema of the tables.

Each is a transaction of its own, and may be repeated. Times are in ms, if nothing else is said. A
row that has expired counts as one without a mark and without data. What a statement decides, it
decides by the newest version of the row, which it waits for: so `now()`, when it began, is the time
for all of its columns.

The row is locked until the server has sent the reply of a statement that changes it, which takes as
long as the network needs. So such a reply has no large state: `LOAD` reads it afterwards.
"""

from __future__ import annotations

__all__ = [
    "CONVERSATIONS",
    "CONVERSATIONS_OF",
    "COUNT",
    "CREATE",
    "DELETE_SET_ASIDE",
    "EMPTY_EXPIRED",
    "LOAD",
    "LOCK",
    "RENEW",
    "REPLACE",
    "SET_ASIDE",
    "SWEEP",
    "SWEEP_CORRUPT",
    "SWEPT_AT_ONCE",
    "TAKE_BACK",
    "WRITE",
]

SWEPT_AT_ONCE = 500

_IS_LIVE = "memory.expires_at > now()"
_MARK = f"CASE WHEN {_IS_LIVE} THEN memory.mark ELSE '' END"
_USER = f"CASE WHEN {_IS_LIVE} THEN memory.user_id END"

# The longest state, in bytes, that is sent while the row is locked.
_LONGEST = 65_536
_IS_LARGE = f"coalesce({_IS_LIVE} AND octet_length(memory.data) > {_LONGEST}, false)"
_DATA = f"CASE WHEN {_IS_LIVE} AND NOT {_IS_LARGE} THEN memory.data END"

# What is stored: the mark, the state, its user, and whether the state was left out.
_STORED = f"{_MARK}, {_DATA}, {_USER}, {_IS_LARGE}"

# Another store holds the lock.
_IS_LOCKED = """coalesce(
    (memory.lock ->> 'expires_at')::float8 > extract(epoch FROM now())
        AND memory.lock ->> 'store' <> %(store)s::text, false)"""
_LOCK = """
memory.lock ->> 'holder', extract(epoch FROM now()) - (memory.lock ->> 'taken_at')::float8"""

# The request's number, or a later one of its store, was written or taken back.
_IS_DONE = (
    "coalesce((memory.writers -> %(store)s::text ->> 0)::bigint >= %(number)s::bigint, false)"
)

# The number of the request, as it is kept.
_NUMBER = """jsonb_build_object(%(store)s::text, jsonb_build_array(
    %(number)s::bigint, extract(epoch FROM now()) + %(kept)s::float8 / 1000))"""

# The numbers of the writers with that of the request, without those that are too old.
_NUMBERED = f"""
CASE WHEN memory.writers - %(store)s::text = '{{}}' THEN '{{}}' ELSE (
    SELECT coalesce(jsonb_object_agg(writer.key, writer.value), '{{}}')
    FROM jsonb_each(memory.writers - %(store)s::text) AS writer
    WHERE (writer.value ->> 1)::float8 > extract(epoch FROM now())) END
|| {_NUMBER}"""


def _later(ms: str) -> str:
    return f"now() + %({ms})s * interval '1 millisecond'"


# Most saves leave this column, which has an index, as it is.
def _full_hour(ms: str) -> str:
    return f"date_trunc('hour', {_later(ms)} + interval '1 hour')"


# A reply that nothing was written needs not wait for the disk.
_NO_FLUSH = "set_config('synchronous_commit', 'off', true)"

_WRITTEN = {
    "mark": "%(mark)s",
    "data": "%(data)s::bytea",
    "user_id": "%(user)s",
    "format": "%(format)s::integer",
    "expires_at": _later("ttl"),
    "sweep_after": f"CASE WHEN %(data)s::bytea IS NULL THEN {_later('swept')}"
    f" ELSE {_full_hour('swept')} END",
}
_FITS = f"{_MARK} = %(read)s AND NOT {_IS_LOCKED} AND NOT {_IS_DONE}"
_CHANGES = ",\n    ".join(
    f"{column} = CASE WHEN {_FITS} THEN {value} ELSE memory.{column} END"
    for column, value in {
        **_WRITTEN,
        "lock": "NULL",
        "writers": _NUMBERED,
    }.items()
)

# Whether it was written, now or before; if not, which lock is in the way, and what is stored. There
# is no row if nothing is stored, and nothing was read.
WRITE = f"""
UPDATE $schema.working_memory AS memory SET {_CHANGES}
WHERE conversation_id = %(id)s
RETURNING {_IS_DONE}, {_IS_LOCKED}, {_LOCK},
    CASE WHEN NOT {_IS_DONE} THEN {_MARK} END,
    CASE WHEN NOT {_IS_DONE} THEN {_DATA} END, {_USER}, {_IS_LARGE},
    CASE WHEN NOT {_IS_DONE} THEN {_NO_FLUSH} END
"""

# The same where there may be no row.
CREATE = WRITE.replace(
    "UPDATE $schema.working_memory AS memory SET",
    f"""
INSERT INTO $schema.working_memory AS memory (conversation_id, {", ".join(_WRITTEN)}, writers)
VALUES (%(id)s, {", ".join(_WRITTEN.values())}, {_NUMBER})
ON CONFLICT (conversation_id) DO UPDATE SET""",
).replace("WHERE conversation_id = %(id)s\n", "")

LOAD = f"""
SELECT {_MARK}, CASE WHEN {_IS_LIVE} THEN memory.data END, {_USER}, false
FROM $schema.working_memory AS memory WHERE conversation_id = %(id)s
"""

# A tombstone is not renewed.
RENEW = f"""
UPDATE $schema.working_memory AS memory
SET expires_at = CASE WHEN data IS NULL THEN expires_at ELSE {_later("ttl")} END,
    sweep_after = greatest(sweep_after, {_full_hour("ttl")})
WHERE conversation_id = %(id)s AND {_IS_LIVE}
RETURNING {_STORED}
"""

# Raise the last number of a store, release its lock, renew a state or leave it as it is, and read.
TAKE_BACK = f"""
INSERT INTO $schema.working_memory AS memory (conversation_id, sweep_after, writers)
VALUES (%(id)s, {_later("kept")}, {_NUMBER})
ON CONFLICT (conversation_id) DO UPDATE
SET writers = CASE WHEN {_IS_DONE} THEN memory.writers ELSE {_NUMBERED} END,
    sweep_after = greatest(memory.sweep_after,
        CASE WHEN memory.data IS NULL THEN {_later("kept")} ELSE {_full_hour("swept")} END),
    expires_at = CASE WHEN %(renews)s AND memory.data IS NOT NULL AND {_IS_LIVE}
        THEN {_later("ttl")} ELSE memory.expires_at END,
    lock = CASE WHEN memory.lock ->> 'store' = %(store)s::text
            AND (memory.lock ->> 'number')::bigint <= %(number)s::bigint
        THEN NULL ELSE memory.lock END
RETURNING {_STORED}, {_NO_FLUSH}
"""

_MAY_LOCK = f"memory.data IS NOT NULL AND {_IS_LIVE} AND NOT {_IS_LOCKED} AND NOT {_IS_DONE}"

# Take the lock, or renew it; whether another one is in the way, and what is stored.
LOCK = f"""
UPDATE $schema.working_memory AS memory SET lock = CASE WHEN {_MAY_LOCK} THEN jsonb_build_object(
    'store', %(store)s::text, 'number', %(number)s::bigint, 'holder', %(holder)s::text,
    'expires_at', extract(epoch FROM {_later("lock")}),
    'taken_at', CASE WHEN memory.lock @> jsonb_build_object(
            'store', %(store)s::text, 'number', %(number)s::bigint)
        THEN (memory.lock ->> 'taken_at')::float8 ELSE extract(epoch FROM now()) END)
    ELSE memory.lock END
WHERE conversation_id = %(id)s
RETURNING {_IS_LOCKED}, {_LOCK}, {_STORED}, {_NO_FLUSH}
"""

CONVERSATIONS = """
SELECT conversation_id FROM $schema.working_memory WHERE data IS NOT NULL AND expires_at > now()
"""

CONVERSATIONS_OF = """
SELECT conversation_id, false FROM $schema.working_memory
WHERE user_id = %(user)s AND expires_at > now()
UNION ALL
SELECT conversation_id, true FROM $schema.working_memory_corrupt
WHERE user_id = %(user)s AND expires_at > now()
"""

COUNT = """
SELECT count(*) FROM $schema.working_memory WHERE data IS NOT NULL AND expires_at > now()
"""

# Another form of what was read.
REPLACE = f"""
UPDATE $schema.working_memory AS memory SET data = %(data)s::bytea, format = %(format)s::integer
WHERE conversation_id = %(id)s AND mark = %(mark)s AND data = %(read)s::bytea AND {_IS_LIVE}
RETURNING true
"""

SET_ASIDE = f"""
WITH unreadable AS (
    SELECT conversation_id, user_id, data FROM $schema.working_memory AS memory
    WHERE conversation_id = %(id)s AND {_MARK} = %(mark)s AND data IS NOT NULL FOR UPDATE),
moved AS (
    UPDATE $schema.working_memory AS memory SET data = NULL, user_id = NULL, mark = ''
    FROM unreadable WHERE memory.conversation_id = unreadable.conversation_id
    RETURNING unreadable.user_id, unreadable.data)
INSERT INTO $schema.working_memory_corrupt AS stored (conversation_id, user_id, expires_at, data)
SELECT %(id)s, user_id, now() + interval '7 days', data FROM moved
ON CONFLICT (conversation_id) DO UPDATE
SET user_id = excluded.user_id, expires_at = excluded.expires_at, data = excluded.data
RETURNING 1
"""

DELETE_SET_ASIDE = """
DELETE FROM $schema.working_memory_corrupt WHERE user_id = %(user)s RETURNING 1
"""

# The numbers of the writers stay, so that nothing that was given up is done yet.
EMPTY_EXPIRED = """
UPDATE $schema.working_memory SET data = NULL, user_id = NULL, sweep_after = now()
WHERE user_id = %(user)s AND expires_at <= now() RETURNING 1
"""

SWEEP = f"""
DELETE FROM $schema.working_memory WHERE conversation_id IN (
    SELECT conversation_id FROM $schema.working_memory
    WHERE sweep_after < now() AND expires_at < now() AND NOT EXISTS (
        SELECT FROM jsonb_each(writers) AS writer
        WHERE (writer.value ->> 1)::float8 > extract(epoch FROM now()))
    ORDER BY sweep_after LIMIT {SWEPT_AT_ONCE} FOR UPDATE SKIP LOCKED)
RETURNING 1
"""

SWEEP_CORRUPT = f"""
DELETE FROM $schema.working_memory_corrupt WHERE conversation_id IN (
    SELECT conversation_id FROM $schema.working_memory_corrupt
    WHERE expires_at < now() LIMIT {SWEPT_AT_ONCE} FOR UPDATE SKIP LOCKED)
RETURNING 1
"""
