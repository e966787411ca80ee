"""What is done to working memory in a database, each function in a transaction of its own.

A row that has expired counts as none.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = [
    "Row",
    "conversations",
    "count",
    "erase_expired",
    "load",
    "lock",
    "ping",
    "renew",
    "replace",
    "sweep",
    "unlock",
    "write",
]

_SWEPT_AT_ONCE = 500

_IS_FREE = """(lock_token IS NULL OR lock_token = :token OR lock_expires_at <= :now
    OR lock_taken_at > :now + 1)"""  # the clock was set back: nobody knows when it expires

_IS_STORED = "conversation_id = :conversation_id AND expires_at > :now"
_IS_READ = f"{_IS_STORED} AND substr(marks, 1, 16) = :read_mark"

_LOAD = f"""
SELECT marks, data, user_id, CASE WHEN NOT {_IS_FREE} THEN lock_holder END, lock_taken_at
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

# Another form of what was read, under the same mark: a block that holds the lock goes on.
_REPLACE = f"UPDATE working_memory SET format = :format, data = :data WHERE {_IS_READ}"

_LOCK = f"""
UPDATE working_memory
SET lock_token = :token, lock_holder = :holder,
    lock_taken_at = CASE WHEN :renews THEN lock_taken_at ELSE :now END,
    lock_expires_at = :now + :seconds, expires_at = :expires_at, sweep_after = :sweep_after
WHERE {_IS_STORED} AND {_IS_FREE} AND (lock_token = :token OR NOT :renews)
"""
_UNLOCK = """
UPDATE working_memory SET lock_token = NULL WHERE conversation_id = ? AND lock_token = ?
"""
_CONVERSATIONS = """
SELECT conversation_id FROM working_memory
WHERE expires_at > :now AND (:user IS NULL OR user_id = :user) LIMIT :limit
"""
_SWEEP = """
DELETE FROM working_memory WHERE conversation_id IN (
    SELECT conversation_id FROM working_memory
    WHERE sweep_after < :now AND expires_at < :now LIMIT :limit)
"""


class Row(NamedTuple):
    """What is stored for a conversation.

    Attributes:
        holder: who else holds its lock; None for nobody.
        held_for: since when, in s.
    """

    marks: str = ""
    data: bytes | None = None
    user_id: str = ""
    holder: str | None = None
    held_for: float = 0.0


def load(connection: sqlite3.Connection, conversation_id: str, token: str = "") -> Row:
    """Return what is stored for a conversation, and who else than a token holds its lock."""
    now = time.time()
    values = {"conversation_id": conversation_id, "token": token, "now": now}
    row = connection.execute(_LOAD, values).fetchone()
    if row is None:
        return Row()
    marks, data, user_id, holder, taken_at = row
    held_for = 0.0 if holder is None else max(0.0, now - taken_at)
    return Row(_text(marks), data, _text(user_id or ""), holder and _text(holder), held_for)


def renew(connection: sqlite3.Connection, conversation_id: str, ttl: float) -> Row:
    """Return what is stored, whose time to live starts anew."""
    connection.execute(_RENEW, {"conversation_id": conversation_id, **_times(ttl)})
    return load(connection, conversation_id)


def write(connection: sqlite3.Connection, save: Mapping[str, Any], ttl: float) -> Row | None:
    """Write a state, or delete it, if what is stored has the mark that was read.

    Args:
        connection: in a write transaction.
        save: the fields of a `Save`.
        ttl: how long it is kept, in s.

    Returns:
        None if it was written, or else what is stored.
    """
    statement = _DELETE
    if save["data"] is not None:
        statement = _UPDATE if save["read_mark"] else _INSERT
    if connection.execute(statement, {**save, **_times(ttl)}).rowcount:
        return None
    return load(connection, save["conversation_id"], save["token"])


def lock(connection: sqlite3.Connection, lock: Mapping[str, Any], ttl: float) -> Row:
    """Take a lock where there is a state, or let one last longer that is held still.

    Args:
        connection: in a write transaction.
        lock: the fields of a `Lock`.
        ttl: how long the state is kept, in s.

    Returns:
        What is stored, and who else holds the lock.
    """
    connection.execute(_LOCK, {**lock, **_times(ttl)})
    return load(connection, lock["conversation_id"], lock["token"])


def unlock(connection: sqlite3.Connection, conversation_id: str, token: str) -> None:
    """Release the lock if it is held with this token."""
    connection.execute(_UNLOCK, [conversation_id, token])


def replace(
    connection: sqlite3.Connection,
    conversation_id: str,
    read_mark: str,
    data: bytes,
    format_number: int,
) -> bool:
    """Store another form of the state that was read, if it is there still; return whether."""
    values = {
        "conversation_id": conversation_id,
        "read_mark": read_mark,
        "data": data,
        "format": format_number,
        "now": time.time(),
    }
    return connection.execute(_REPLACE, values).rowcount > 0


def conversations(
    connection: sqlite3.Connection, user_id: str | None, limit: int = -1
) -> list[str]:
    """Return the conversations that have a state, all of them or those of a user.

    Args:
        connection: where they are read.
        user_id: whose; None is all users.
        limit: how many at most; -1 is no limit.
    """
    values = {"user": user_id, "now": time.time(), "limit": limit}
    return [_text(row[0]) for row in connection.execute(_CONVERSATIONS, values)]


def count(connection: sqlite3.Connection) -> int:
    """Return how many conversations have a state."""
    found = connection.execute(
        "SELECT count(*) FROM working_memory WHERE expires_at > ?", [time.time()]
    )
    return int(found.fetchone()[0])


def erase_expired(connection: sqlite3.Connection, user_id: str) -> None:
    """Delete a user's states that have expired."""
    connection.execute(
        "DELETE FROM working_memory WHERE user_id = ? AND expires_at <= ?", [user_id, time.time()]
    )


def ping(connection: sqlite3.Connection) -> None:
    """Read a page of the file."""
    connection.execute("SELECT 1 FROM working_memory LIMIT 1").fetchone()


def sweep(connection: sqlite3.Connection) -> bool:
    """Delete some of what has expired; return whether there may be more."""
    values = {"now": time.time(), "limit": _SWEPT_AT_ONCE}
    return connection.execute(_SWEEP, values).rowcount == _SWEPT_AT_ONCE


def _times(ttl: float) -> dict[str, float]:
    """Return the time, when a state expires, and when it is swept.

    Most saves leave the last one, which has an index, as it is: it is a full hour.
    """
    now = time.time()
    full_hour = int(min(now + ttl, 1e15) // 3600 + 1) * 3600
    return {"now": now, "expires_at": now + ttl, "sweep_after": full_hour}


def _text(value: str | bytes) -> str:
    """Return a text, which connections that only read return as UTF-8."""
    return value if isinstance(value, str) else str(value, "utf-8")
