"""What is done to working memory in a database, each function in a transaction of its own.

A row that has expired counts as none.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping

from jazzmine.backends.sqlite.connection import as_text
from jazzmine.records.stored_memory import Lock, Locked, Save, Stored, outcome_of

_SWEPT_AT_ONCE = 500

_IS_FREE = """(lock_token IS NULL OR lock_token = :token OR lock_expires_at <= :now
    OR lock_taken_at > :now + 1)"""  # the clock was set back: nobody knows when it expires

_IS_STORED = "conversation_id = :conversation_id AND expires_at > :now"
_IS_READ = f"{_IS_STORED} AND substr(marks, 1, 16) = :read_mark"

_LOAD = f"""
SELECT marks, data, coalesce(user_id, ''), CASE WHEN NOT {_IS_FREE} THEN lock_holder END,
    max(0.0, :now - coalesce(lock_taken_at, 0.0))
FROM working_memory WHERE {_IS_STORED}
"""
_RENEW = f"""
UPDATE working_memory SET expires_at = :expires_at, sweep_after = :sweep_after
WHERE {_IS_STORED}
"""
_DELETE = f"DELETE FROM working_memory WHERE {_IS_READ} AND {_IS_FREE}"
_UPDATE = f"""
UPDATE working_memory
SET user_id = :user_id, format = :format, expires_at = :expires_at, sweep_after = :sweep_after,
    marks = substr(:mark || marks, 1, 256), lock_token = NULL, data = :data
WHERE {_IS_READ} AND {_IS_FREE}
"""
_INSERT = """
INSERT INTO working_memory
    (conversation_id, user_id, format, expires_at, sweep_after, marks, data)
VALUES (:conversation_id, :user_id, :format, :expires_at, :sweep_after, :mark, :data)
ON CONFLICT (conversation_id) DO UPDATE
SET user_id = excluded.user_id, format = excluded.format, expires_at = excluded.expires_at,
    sweep_after = excluded.sweep_after, marks = excluded.marks, lock_token = NULL,
    data = excluded.data
WHERE expires_at <= :now
"""

_LOCK = f"""
UPDATE working_memory
SET lock_token = :token, lock_holder = :holder,
    lock_taken_at = CASE WHEN :renews THEN lock_taken_at ELSE :now END,
    lock_expires_at = :now + :seconds, expires_at = :expires_at, sweep_after = :sweep_after
WHERE {_IS_STORED} AND {_IS_FREE} AND (lock_token = :token OR NOT :renews)
"""
_CONVERSATIONS = """
SELECT conversation_id FROM working_memory
WHERE expires_at > :now AND (:user IS NULL OR user_id = :user) LIMIT :limit
"""
_ERASE_EXPIRED = "DELETE FROM working_memory WHERE user_id = :user AND expires_at <= :now"
_SWEEP = """
DELETE FROM working_memory WHERE conversation_id IN (
    SELECT conversation_id FROM working_memory
    WHERE sweep_after < :now AND expires_at < :now LIMIT :limit)
"""


def load(connection: sqlite3.Connection, conversation_id: str) -> Stored:
    """Return what is stored for a conversation."""
    marks, data, user_id, *_ = _row(connection, {"conversation_id": conversation_id, "token": ""})
    return Stored(marks[:16], data, user_id)


def renew(connection: sqlite3.Connection, conversation_id: str, ttl: float) -> Stored:
    """Return what is stored, whose time to live starts anew."""
    connection.execute(_RENEW, {"conversation_id": conversation_id, **_times(ttl)})
    return load(connection, conversation_id)


def write(connection: sqlite3.Connection, save: Save, ttl: float) -> Save | Locked | Stored:
    """Write a state, or delete it, if what is stored has the mark that was read.

    Args:
        connection: in a write transaction.
        save: what is written.
        ttl: how long it is kept, in s.

    Returns:
        The save if it was written, now or by an earlier attempt; or else what is stored.
    """
    values = {**save._asdict(), **_times(ttl)}
    statement = _DELETE if save.data is None else _UPDATE if save.read_mark else _INSERT
    if connection.execute(statement, values).rowcount:
        return save
    row = _row(connection, values)
    return save if save.mark in row[0] else outcome_of(*row)


def lock(connection: sqlite3.Connection, lock: Lock, ttl: float) -> Stored | Locked:
    """Take a lock where there is a state, or let one last longer, or end, that is held still.

    Args:
        connection: in a write transaction.
        lock: which lock.
        ttl: how long the state is kept, in s.

    Returns:
        What is stored, or who else holds the lock.
    """
    values = {**lock._asdict(), **_times(ttl)}
    connection.execute(_LOCK, values)
    return outcome_of(*_row(connection, values))


def conversations(
    connection: sqlite3.Connection, user_id: str | None, limit: int | None
) -> list[str]:
    """Return the conversations that have a state, all of them or those of a user.

    Args:
        connection: where they are read.
        user_id: whose; None is all users.
        limit: how many at most.
    """
    values = {"user": user_id, "now": time.time(), "limit": -1 if limit is None else limit}
    return [as_text(row[0]) for row in connection.execute(_CONVERSATIONS, values)]


def sweep(connection: sqlite3.Connection, user_id: str | None) -> bool:
    """Delete some of what has expired, or all of a user's; return whether there may be more."""
    values = {"now": time.time(), "limit": _SWEPT_AT_ONCE, "user": user_id}
    statement = _SWEEP if user_id is None else _ERASE_EXPIRED
    return connection.execute(statement, values).rowcount == _SWEPT_AT_ONCE


def _row(
    connection: sqlite3.Connection, values: Mapping[str, object]
) -> tuple[str, bytes | None, str, str | None, float]:
    """Return what is stored, and who else than a token holds the lock for how long, in s."""
    row = connection.execute(_LOAD, {"now": time.time(), **values}).fetchone()
    if row is None:
        return "", None, "", None, 0.0
    marks, data, user_id, holder, held_for = row
    return as_text(marks), data, as_text(user_id), holder and as_text(holder), held_for


def _times(ttl: float) -> dict[str, float]:
    """Return the time, when a state expires, and when it is swept.

    Most saves leave the last one, which has an index, as it is: it is a full hour.
    """
    now = time.time()
    full_hour = int(min(now + ttl, 1e15) // 3600 + 1) * 3600
    return {"now": now, "expires_at": now + ttl, "sweep_after": full_hour}
