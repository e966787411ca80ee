"""Delete the records of a user, and conversations that are older than a time."""

from __future__ import annotations

import sqlite3

from jazzmine.backends.sqlite import statements as sql
from jazzmine.backends.sqlite.queries import limit_of
from jazzmine.records.conversation_log import Erased

__all__ = ["erase", "prune"]


def erase(connection: sqlite3.Connection, user_id: str, limit: int) -> Erased:
    """Delete up to `limit` records of a user, and return how many; 0 of each if none is left."""
    rest = limit_of(limit)
    traces = connection.execute(sql.DELETE_TRACES_OF_USER, [user_id, rest]).rowcount
    conversations = messages = 0
    rest -= traces
    found = _delete_messages(connection, "user_id", user_id, rest)
    messages, traces, rest = messages + found[0], traces + found[1], rest - found[0]
    while rest > 0:
        row = connection.execute(sql.CONVERSATION_OF_USER, [user_id]).fetchone()
        if row is None:
            break
        found = _delete_messages(connection, "conversation_id", row[0], rest)
        messages, traces, rest = messages + found[0], traces + found[1], rest - found[0]
        # With the last of its messages, or later with the others.
        if rest > 0:
            connection.execute(sql.DELETE_CONVERSATION, [row[0]])
            conversations, rest = conversations + 1, rest - 1
    return Erased(conversations, messages, traces)


def _delete_messages(
    connection: sqlite3.Connection, owner: str, owner_id: str, limit: int
) -> tuple[int, int]:
    """Delete up to `limit` messages; return how many there were, and how many traces of theirs."""
    if limit <= 0:
        return 0, 0
    count, delete = sql.DELETE_SOME_MESSAGES[owner]
    (traces,) = connection.execute(count, [owner_id, limit]).fetchone()
    return connection.execute(delete, [owner_id, limit]).rowcount, traces


def prune(connection: sqlite3.Connection, before: int, limit: int) -> int:
    """Delete up to `limit` conversations that are older than `before`; return how many."""
    rows = connection.execute(sql.OLD_CONVERSATIONS, [before, before, limit_of(limit)]).fetchall()
    connection.executemany(sql.DELETE_CONVERSATION, rows)
    return len(rows)
