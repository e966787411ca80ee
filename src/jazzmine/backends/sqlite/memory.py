"""What is done to working memory in a database, each function in a transaction of its own.

A transaction that a call gave up has either taken effect before the next one of its store, or never
does: so nothing is written down about requests that may be repeated. A row that has expired counts
as none.
"""

from __future__ import annotations

import sqlite3
import time
from typing import NamedTuple

__all__ = [
    "Holder",
    "Row",
    "conversations",
    "conversations_of",
    "count",
    "erase_leftovers",
    "is_locked_by",
    "load",
    "lock",
    "ping",
    "renew",
    "replace",
    "set_aside",
    "sweep",
    "unlock",
    "write",
]

_SET_ASIDE = 7 * 24 * 3600.0
_SWEPT_AT_ONCE = 500

_HELD = "FROM working_memory_locks WHERE conversation_id = ? AND store = ? AND number <= ?"

# Nearly all that is written: it costs one statement instead of four.
_REPLACE_UNLOCKED = """
UPDATE working_memory
SET user_id = ?, format = ?, expires_at = ?, sweep_after = ?, mark = ?, data = ?
WHERE conversation_id = ? AND expires_at > ? AND mark = ?
    AND NOT EXISTS (SELECT 1 FROM working_memory_locks WHERE conversation_id = ?)
"""


class Row(NamedTuple):
    """What is stored for a conversation."""

    mark: str = ""
    data: bytes | None = None
    user_id: str | None = None


class Holder(NamedTuple):
    """Who holds a conversation's lock, and for how long already, in s."""

    holder: str
    held_for: float


def load(connection: sqlite3.Connection, conversation_id: str) -> Row:
    """Return what is stored for a conversation."""
    row = connection.execute(
        "SELECT mark, data, user_id FROM working_memory"
        " WHERE conversation_id = ? AND expires_at > ?",
        [conversation_id, time.time()],
    ).fetchone()
    if row is None:
        return Row()
    mark, data, user_id = row
    return Row(_text(mark), data, None if user_id is None else _text(user_id))


def renew(connection: sqlite3.Connection, conversation_id: str, ttl: float) -> Row:
    """Return what is stored, whose time to live starts anew."""
    now = time.time()
    connection.execute(
        "UPDATE working_memory SET expires_at = ?, sweep_after = ?"
        " WHERE conversation_id = ? AND expires_at > ? AND data IS NOT NULL",
        [now + ttl, _full_hour(now + ttl), conversation_id, now],
    )
    return load(connection, conversation_id)


def write(
    connection: sqlite3.Connection,
    conversation_id: str,
    store: str,
    read_mark: str,
    row: Row,
    format_number: int | None,
    ttl: float,
) -> Holder | Row | None:
    """Write a state, or a tombstone, if what is stored has the mark that was read.

    The lock of the same store is released.

    Args:
        row: what is written.
        ttl: how long it is kept, in s.

    Returns:
        None if it was written, or else who holds the lock, or what is stored.
    """
    now = time.time()
    sweep_after = now + ttl if row.data is None else _full_hour(now + ttl)
    values = [row.user_id, format_number, now + ttl, sweep_after, row.mark, row.data]
    if read_mark:
        about = [conversation_id, now, read_mark, conversation_id]
        if connection.execute(_REPLACE_UNLOCKED, [*values, *about]).rowcount:
            return None
    locked = _locked(connection, conversation_id, store)
    if locked is not None:
        return locked
    stored = load(connection, conversation_id)
    if stored.mark != read_mark:
        return stored
    connection.execute(
        "DELETE FROM working_memory_locks WHERE conversation_id = ?", [conversation_id]
    )
    connection.execute(
        "INSERT OR REPLACE INTO working_memory"
        " (user_id, format, expires_at, sweep_after, mark, data, conversation_id)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [*values, conversation_id],
    )
    return None


def lock(
    connection: sqlite3.Connection,
    conversation_id: str,
    store: str,
    number: int,
    holder: str,
    seconds: float,
    renews: bool,
) -> Holder | Row:
    """Take a lock where there is a state, or let one last longer that was not released.

    Returns:
        what is stored, or who else holds the lock.
    """
    locked = _locked(connection, conversation_id, store)
    if locked is not None:
        return locked
    stored, now = load(connection, conversation_id), time.time()
    if renews:
        connection.execute(
            "UPDATE working_memory_locks SET renewed_at = ?, expires_at = ?"
            " WHERE conversation_id = ? AND store = ? AND number = ?",
            [now, now + seconds, conversation_id, store, number],
        )
    elif stored.data is not None:
        connection.execute(
            "INSERT OR REPLACE INTO working_memory_locks VALUES (?, ?, ?, ?, ?, ?, ?)",
            [conversation_id, store, number, holder, now, now, now + seconds],
        )
    return stored


def unlock(connection: sqlite3.Connection, conversation_id: str, store: str, number: int) -> None:
    """Release the lock of a store if it has this number or a lower one."""
    connection.execute(f"DELETE {_HELD}", [conversation_id, store, number])


def is_locked_by(
    connection: sqlite3.Connection, conversation_id: str, store: str, number: int
) -> bool:
    """Return whether a store has a lock with this number or a lower one, expired or not."""
    row = connection.execute(f"SELECT 1 {_HELD}", [conversation_id, store, number]).fetchone()
    return row is not None


def _locked(connection: sqlite3.Connection, conversation_id: str, store: str) -> Holder | None:
    """Return who else holds the lock."""
    now = time.time()
    row = connection.execute(
        "SELECT holder, taken_at, renewed_at, expires_at FROM working_memory_locks"
        " WHERE conversation_id = ? AND store <> ? AND expires_at > ?",
        [conversation_id, store, now],
    ).fetchone()
    if row is None:
        return None
    holder, taken_at, renewed_at, expires_at = row
    if renewed_at > now:  # the clock was set back: the lock keeps the time that it had left
        expires_at -= renewed_at - now
        connection.execute(
            "UPDATE working_memory_locks SET renewed_at = ?, expires_at = ?"
            " WHERE conversation_id = ?",
            [now, expires_at, conversation_id],
        )
    return Holder(holder, max(0.0, now - taken_at))


def set_aside(connection: sqlite3.Connection, conversation_id: str, mark: str) -> None:
    """Move a state that cannot be read away, unless it is another one by now."""
    moved = connection.execute(
        """
        INSERT OR REPLACE INTO working_memory_corrupt
        SELECT conversation_id, user_id, ?, data FROM working_memory
        WHERE conversation_id = ? AND mark = ? AND data IS NOT NULL
        """,
        [time.time() + _SET_ASIDE, conversation_id, mark],
    )
    if moved.rowcount:
        connection.execute(
            "DELETE FROM working_memory WHERE conversation_id = ?", [conversation_id]
        )


def conversations_of(connection: sqlite3.Connection, user_id: str) -> list[tuple[str, int]]:
    """Return the conversations of a user's states; with each, 1 if it was set aside, else 0."""
    found = connection.execute(
        """
        SELECT conversation_id, 0 FROM working_memory WHERE user_id = :user AND expires_at > :now
        UNION ALL
        SELECT conversation_id, 1 FROM working_memory_corrupt
        WHERE user_id = :user AND expires_at > :now
        """,
        {"user": user_id, "now": time.time()},
    )
    return [(_text(row[0]), row[1]) for row in found]


def erase_leftovers(connection: sqlite3.Connection, user_id: str) -> None:
    """Delete a user's states that were set aside, and those that have expired."""
    connection.execute("DELETE FROM working_memory_corrupt WHERE user_id = ?", [user_id])
    connection.execute(
        "DELETE FROM working_memory WHERE user_id = ? AND expires_at <= ?", [user_id, time.time()]
    )


def conversations(connection: sqlite3.Connection) -> list[str]:
    """Return the conversations that have a state."""
    found = connection.execute(
        "SELECT conversation_id FROM working_memory WHERE data IS NOT NULL AND expires_at > ?",
        [time.time()],
    )
    return [_text(row[0]) for row in found]


def replace(
    connection: sqlite3.Connection,
    conversation_id: str,
    read: Row,
    data: bytes,
    format_number: int,
) -> bool:
    """Store another form of the state that was read, if it is still there; return whether."""
    changed = connection.execute(
        "UPDATE working_memory SET data = ?, format = ?"
        " WHERE conversation_id = ? AND mark = ? AND data = ? AND expires_at > ?",
        [data, format_number, conversation_id, read.mark, read.data, time.time()],
    )
    return changed.rowcount > 0


def count(connection: sqlite3.Connection) -> int:
    """Return how many conversations have a state."""
    found = connection.execute(
        "SELECT count(*) FROM working_memory WHERE data IS NOT NULL AND expires_at > ?",
        [time.time()],
    )
    return int(found.fetchone()[0])


def ping(connection: sqlite3.Connection) -> None:
    """Read a page of the file."""
    connection.execute("SELECT 1 FROM working_memory LIMIT 1").fetchone()


def sweep(connection: sqlite3.Connection) -> bool:
    """Delete some of what has expired; return whether there may be more."""
    now, deleted = time.time(), 0
    for table, due in (
        ("working_memory", "sweep_after < ? AND expires_at < ?"),
        ("working_memory_locks", "expires_at < ? AND expires_at < ?"),
        ("working_memory_corrupt", "expires_at < ? AND expires_at < ?"),
    ):
        chosen = f"SELECT conversation_id FROM {table} WHERE {due} LIMIT {_SWEPT_AT_ONCE}"
        statement = f"DELETE FROM {table} WHERE conversation_id IN ({chosen})"
        deleted = max(deleted, connection.execute(statement, [now, now]).rowcount)
    return deleted == _SWEPT_AT_ONCE


def _text(value: str | bytes) -> str:
    """Return a text, which connections that only read return as UTF-8."""
    return value if isinstance(value, str) else str(value, "utf-8")


# Most saves leave this column, which has an index, as it is.
def _full_hour(moment: float) -> int:
    return int(min(moment, 1e15) // 3600 + 1) * 3600
