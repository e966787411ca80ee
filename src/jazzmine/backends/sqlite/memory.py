"""What is done to working memory in a database, each function in a transaction of its own.

The rules of locks are those of the functions in PostgreSQL and of the scripts in Redis: at most one
token holds a lock, and only the token that holds it writes. A request may be repeated: it does not
block on its own lock, and finds the result of the first time. A lock that is free goes to the head
of its queue first.
"""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = [
    "Token",
    "conversations_of",
    "count",
    "delete",
    "erase",
    "extend",
    "load",
    "ping",
    "release",
    "renew",
    "save",
    "seconds_to_wait",
    "set_aside",
    "sweep",
    "take",
]

# For how long, in s, a lock that was handed over waits for its new owner, and for how long a token
# that no longer asks stays in the queue.
_CLAIM, _ASKING = 1.0, 3.0

# How often a waiting token that sees its lock taken renews its entry in the queue, in s.
_ENTRY_RENEWED = 1.0

_SET_ASIDE = 7 * 24 * 3600.0
_SWEPT_AT_ONCE = 500


class Token(NamedTuple):
    """A token of a store, and the conversation whose lock it is for."""

    conversation_id: str
    store: str
    number: int

    def __str__(self) -> str:
        return f"{self.store}.{self.number}"


@dataclass
class _Lock:
    """A row of the locks.

    Attributes:
        holder: the token that has the lock, or had it when it expired.
    """

    conversation_id: str
    holder: str | None = None
    taken_at: float = 0.0
    expires_at: float = 0.0
    sweep_after: int = 0
    queue: dict[str, list[float]] = field(default_factory=dict)
    results: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, connection: sqlite3.Connection, conversation_id: str) -> _Lock:
        row = connection.execute(
            "SELECT token, taken_at, expires_at, sweep_after, queue, results"
            " FROM working_memory_locks WHERE conversation_id = ?",
            [conversation_id],
        ).fetchone()
        if row is None:
            return cls(conversation_id)
        token, taken_at, expires_at, sweep_after, queue, results = row
        times = (taken_at, expires_at, sweep_after)
        return cls(conversation_id, token, *times, json.loads(queue), json.loads(results))

    def write(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT OR REPLACE INTO working_memory_locks VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                self.conversation_id,
                self.holder,
                self.taken_at,
                self.expires_at,
                self.sweep_after,
                json.dumps(self.queue),
                json.dumps(self.results),
            ],
        )

    def is_held_by(self, token: Token, now: float) -> bool:
        return self.holder == str(token) and self.expires_at > now

    def follow_clock(self, now: float) -> None:
        """Keep the time that is left if the clock was set back after the lock was taken."""
        ahead = max(0.0, self.taken_at - now)
        self.taken_at -= ahead
        self.expires_at -= ahead

    def give(self, token: str | None, now: float, seconds: float) -> None:
        """Let a token hold the lock, or none."""
        self.holder, self.taken_at, self.expires_at = token, now, now + seconds
        if token is not None:
            self.queue.pop(token, None)

    def hand_over(self, now: float) -> None:
        """Pass the lock to the head of the queue, without those that no longer ask."""
        self.queue = {token: entry for token, entry in self.queue.items() if entry[1] > now}
        head = min(self.queue, key=self.queue.__getitem__, default=None)
        self.give(head, now, _CLAIM if head is not None else 0.0)

    def result_of(self, token: Token) -> Any:
        number, result, _ = self.results.get(token.store, (0, None, 0))
        return result if number == token.number else None

    def is_over(self, token: Token) -> bool:
        """Whether the token, or a later one of its store, has a result."""
        return token.store in self.results and self.results[token.store][0] >= token.number

    def note(self, token: Token, result: str, now: float, kept: float) -> None:
        """Keep the result of a token, and drop those that are too old."""
        self.results = {store: one for store, one in self.results.items() if one[2] > now}
        self.results[token.store] = [token.number, result, now + kept]
        self.sweep_after = max(self.sweep_after, _full_hour(now + kept))


def take(
    connection: sqlite3.Connection, token: Token, lasting: float, released: str, queueing: int
) -> bytes | float | None:
    """Take a lock and read the state under it, or join the queue.

    Args:
        lasting: how long the lock lasts, in s.
        released: a token whose lock counts as free.
        queueing: 0 not to join the queue, 1 for its end, -1 for its beginning.

    Returns:
        the state, or how long, in s, until the lock of another token expires.
    """
    now, name = time.time(), str(token)
    lock = _Lock.of(connection, token.conversation_id)
    if lock.is_over(token):
        return 0.0
    lock.follow_clock(now)
    if lock.holder in (None, released) or lock.expires_at <= now:
        lock.hand_over(now)
    if lock.holder not in (None, name):
        if queueing:
            first = lock.queue.get(name, [queueing * now])[0]
            lock.queue[name] = [first, now + _ASKING]
        lock.write(connection)
        return lock.expires_at - now
    lock.give(name, now, lasting)
    lock.sweep_after = max(lock.sweep_after, _full_hour(now + lasting))
    lock.write(connection)
    return load(connection, token.conversation_id, now)


def seconds_to_wait(connection: sqlite3.Connection, token: Token) -> float | None:
    """Return for how long it is useless to call `take`, in s; None if it is worth while."""
    now, name = time.time(), str(token)
    lock = _Lock.of(connection, token.conversation_id)
    entry = lock.queue.get(name)
    if entry is None or entry[1] < now + _ASKING - _ENTRY_RENEWED:
        return None
    if lock.expires_at <= now or lock.taken_at > now:
        return None
    before = sum(other < entry for other in lock.queue.values())
    # A lock that is held for long already is asked for less often.
    return min(lock.expires_at - now, max(0.001 * (1 + before), (now - lock.taken_at) / 4))


def save(
    connection: sqlite3.Connection,
    token: Token,
    data: bytes,
    user_id: str,
    format_number: int,
    ttl: float,
    kept: float,
) -> bool:
    """Write the state and hand the lock over; False if the token lost the lock.

    Args:
        ttl: how long the state is kept, in s.
        kept: how long the result is kept for a repeated request, in s.
    """
    now = time.time()
    lock = _Lock.of(connection, token.conversation_id)
    if not lock.is_held_by(token, now):
        return bool(lock.result_of(token) == "saved")
    connection.execute(
        """
        INSERT INTO working_memory VALUES (?, ?, ?, ?, ?, ?)
        ON CONFLICT (conversation_id) DO UPDATE
        SET user_id = excluded.user_id, format = excluded.format, expires_at = excluded.expires_at,
            sweep_after = excluded.sweep_after, data = excluded.data
        """,
        [token.conversation_id, user_id, format_number, now + ttl, _full_hour(now + ttl), data],
    )
    lock.note(token, "saved", now, kept)
    lock.hand_over(now)
    lock.write(connection)
    return True


def delete(connection: sqlite3.Connection, token: Token, kept: float) -> bool | None:
    """Delete the state and hand the lock over; None if the token lost the lock."""
    now = time.time()
    lock = _Lock.of(connection, token.conversation_id)
    if not lock.is_held_by(token, now):
        return {"deleted": True, "nothing": False}.get(lock.result_of(token))
    was_there = load(connection, token.conversation_id, now) is not None
    connection.execute(
        "DELETE FROM working_memory WHERE conversation_id = ?", [token.conversation_id]
    )
    lock.note(token, "deleted" if was_there else "nothing", now, kept)
    lock.hand_over(now)
    lock.write(connection)
    return was_there


def erase(connection: sqlite3.Connection, token: Token, user_id: str, kept: float) -> int | None:
    """Delete the state, and one that was set aside, if it is a user's, and hand the lock over.

    Returns:
        how many were deleted; None if the token lost the lock.
    """
    now = time.time()
    lock = _Lock.of(connection, token.conversation_id)
    if not lock.is_held_by(token, now):
        word, _, number = str(lock.result_of(token)).partition(" ")
        return int(number) if word == "erased" else None
    owned, erased = [token.conversation_id, user_id], 0
    for table in ("working_memory", "working_memory_corrupt"):
        where = f"FROM {table} WHERE conversation_id = ? AND user_id = ?"
        kept_until = connection.execute(f"SELECT expires_at {where}", owned).fetchone()
        connection.execute(f"DELETE {where}", owned)
        erased += kept_until is not None and kept_until[0] > now
    lock.note(token, f"erased {erased}", now, kept)
    lock.hand_over(now)
    lock.write(connection)
    return erased


def conversations_of(connection: sqlite3.Connection, user_id: str) -> list[str]:
    """Return the conversations whose state, or one that was set aside, is a user's."""
    found = connection.execute(
        """
        SELECT conversation_id FROM working_memory WHERE user_id = :user
        UNION SELECT conversation_id FROM working_memory_corrupt WHERE user_id = :user
        """,
        {"user": user_id},
    )
    return [str(row[0], "utf-8") for row in found]


def release(connection: sqlite3.Connection, token: Token, kept: float) -> None:
    """Let the lock go, and leave the queue; afterwards the token gets no lock any more."""
    now = time.time()
    lock = _Lock.of(connection, token.conversation_id)
    lock.queue.pop(str(token), None)
    if not lock.is_over(token):
        lock.note(token, "released", now, kept)
    if lock.holder == str(token):
        lock.hand_over(now)
    lock.write(connection)


def extend(connection: sqlite3.Connection, token: Token, lasting: float) -> bool:
    """Have the lock last longer; False if the token lost it."""
    now = time.time()
    changed = connection.execute(
        "UPDATE working_memory_locks SET expires_at = ?"
        " WHERE conversation_id = ? AND token = ? AND expires_at > ?",
        [now + lasting, token.conversation_id, str(token), now],
    )
    return changed.rowcount > 0


def load(
    connection: sqlite3.Connection, conversation_id: str, now: float | None = None
) -> bytes | None:
    """Return the state of a conversation, or None."""
    row = connection.execute(
        "SELECT data FROM working_memory WHERE conversation_id = ? AND expires_at > ?",
        [conversation_id, time.time() if now is None else now],
    ).fetchone()
    return None if row is None else bytes(row[0])


def renew(connection: sqlite3.Connection, conversation_id: str, ttl: float) -> bytes | None:
    """Return the state of a conversation, whose time to live starts anew."""
    now = time.time()
    connection.execute(
        "UPDATE working_memory SET expires_at = ?, sweep_after = ?"
        " WHERE conversation_id = ? AND expires_at > ?",
        [now + ttl, _full_hour(now + ttl), conversation_id, now],
    )
    return load(connection, conversation_id, now)


def set_aside(connection: sqlite3.Connection, conversation_id: str, data: bytes) -> None:
    """Move a state that cannot be read away, unless it is another one by now."""
    moved = connection.execute(
        """
        INSERT OR REPLACE INTO working_memory_corrupt
        SELECT conversation_id, user_id, ?, data FROM working_memory
        WHERE conversation_id = ? AND data = ?
        """,
        [time.time() + _SET_ASIDE, conversation_id, data],
    )
    if moved.rowcount:
        connection.execute(
            "DELETE FROM working_memory WHERE conversation_id = ?", [conversation_id]
        )


def count(connection: sqlite3.Connection) -> int:
    """Return how many conversations have a state."""
    found = connection.execute(
        "SELECT count(*) FROM working_memory WHERE expires_at > ?", [time.time()]
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
        ("working_memory_locks", "sweep_after < ? AND expires_at < ?"),
        ("working_memory_corrupt", "expires_at < ? AND expires_at < ?"),
    ):
        chosen = f"SELECT conversation_id FROM {table} WHERE {due} LIMIT {_SWEPT_AT_ONCE}"
        statement = f"DELETE FROM {table} WHERE conversation_id IN ({chosen})"
        deleted = max(deleted, connection.execute(statement, [now, now]).rowcount)
    return deleted == _SWEPT_AT_ONCE


def _full_hour(moment: float) -> int:
    return int(min(moment, 1e15) // 3600 + 1) * 3600
