"""Delete the records of a user, and conversations that are older than a time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from jazzmine.backends.sqlite.queries import IS_OLD
from jazzmine.records.conversation_log import DeletedCounts
from jazzmine.records.rows import Row, row_id
from jazzmine.records.types import MAX_INT

_DELETE_TRACES_OF_USER = """
DELETE FROM stored_turn_traces WHERE seq IN (
    SELECT seq FROM stored_turn_traces WHERE user_id = ? AND seq <= ? LIMIT ?)
"""
_CONVERSATION_OF_USER = """
SELECT id FROM stored_conversations WHERE user_id = ? AND seq <= ? LIMIT 1
"""
_SOME = "FROM stored_messages WHERE {} = ? AND seq <= ? ORDER BY timestamp, seq LIMIT ?"


def erase(
    connection: sqlite3.Connection,
    user_id: str,
    limit: int,
    newest: tuple[int, int, int],
) -> DeletedCounts:
    """Delete about `limit` records of a user, and return how many; 0 of each if none is left.

    Args:
        connection: in a write transaction.
        user_id: whose records.
        limit: about how many.
        newest: the largest numbers of conversations, messages and traces to delete.
    """
    last = newest[2]
    traces = connection.execute(_DELETE_TRACES_OF_USER, [user_id, last, limit]).rowcount
    erased = DeletedCounts(traces=traces)
    if traces < limit:
        rest = limit - traces
        deleted = _delete_messages(connection, "user_id", user_id, rest, newest[1])
        erased = erased.plus(deleted)
    while (rest := limit - sum(erased)) > 0:
        row = connection.execute(_CONVERSATION_OF_USER, [user_id, newest[0]]).fetchone()
        if row is None:
            break
        erased = erased.plus(_delete_conversation(connection, row[0], rest))
    return erased


def prune(
    connection: sqlite3.Connection, conversations: Sequence[Row], before: int, limit: int
) -> tuple[int, int]:
    """Delete about `limit` records of old conversations, those of the first one first.

    Returns:
        How many conversations were deleted, and how many of the first rows need no other step.
    """
    erased = DeletedCounts()
    for done, row in enumerate(conversations):
        conversation_id = row_id(row)
        rest = limit - sum(erased)
        if rest <= 0:
            return erased.conversations, done
        about = {"id": conversation_id, "before": before}
        stored = connection.execute(IS_OLD, about).fetchone()
        if stored is not None and _metadata(stored[0]) == _metadata(row[1]):
            part = _delete_conversation(connection, conversation_id, rest)
            erased = erased.plus(part)
            if not part.conversations:
                return erased.conversations, done
    return erased.conversations, len(conversations)


def _metadata(body: str | bytes) -> str:
    try:
        return json.dumps(json.loads(body).get("metadata", {}), sort_keys=True)
    except (ValueError, AttributeError):
        return ""


def _delete_conversation(
    connection: sqlite3.Connection, conversation_id: str, limit: int
) -> DeletedCounts:
    """Delete the oldest messages of a conversation, and it with the last, or later with others."""
    erased = _delete_messages(connection, "conversation_id", conversation_id, limit)
    if erased.messages < limit:
        connection.execute("DELETE FROM stored_conversations WHERE id = ?", [conversation_id])
        erased = erased._replace(conversations=1)
    return erased


def _delete_messages(
    connection: sqlite3.Connection, owner: str, owner_id: str, limit: int, newest: int = MAX_INT
) -> DeletedCounts:
    some, parameters = _SOME.format(owner), [owner_id, newest, limit]
    count = f"SELECT count(*) FROM stored_turn_traces WHERE message_id IN (SELECT id {some})"
    (traces,) = connection.execute(count, parameters).fetchone()
    delete = f"DELETE FROM stored_messages WHERE seq IN (SELECT seq {some})"
    return DeletedCounts(0, connection.execute(delete, parameters).rowcount, traces)
