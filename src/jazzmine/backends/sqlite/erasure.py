"""Delete the records of a user, and conversations that are older than a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from jazzmine.backends.sqlite import statements as sql
from jazzmine.records.conversation_log import DeletedCounts

__all__ = ["erase", "prune"]


def erase(
    connection: sqlite3.Connection, user_id: str, limit: int, everywhere: bool
) -> DeletedCounts:
    """Delete about `limit` records of a user, and return how many; 0 of each if none is left.

    Args:
        connection: in a write transaction.
        user_id: whose records.
        limit: about how many.
        everywhere: whether what the user has in the conversations of others is deleted, too.
    """
    erased = DeletedCounts()
    if everywhere:
        traces = connection.execute(sql.DELETE_TRACES_OF_USER, [user_id, limit]).rowcount
        erased = DeletedCounts(traces=traces)
        if traces < limit:
            erased = erased.plus(_delete_messages(connection, "user_id", user_id, limit - traces))
    while (rest := limit - sum(erased)) > 0:
        row = connection.execute(sql.CONVERSATION_OF_USER, [user_id]).fetchone()
        if row is None:
            break
        erased = erased.plus(_delete_conversation(connection, row[0], rest))
    return erased


def prune(
    connection: sqlite3.Connection, ids: Sequence[str], before: int, limit: int
) -> tuple[int, int]:
    """Delete about `limit` records of old conversations, those of the first one first.

    Returns:
        How many conversations were deleted, and how many of the first ids need no other step.
    """
    erased = DeletedCounts()
    for done, conversation_id in enumerate(ids):
        rest = limit - sum(erased)
        if rest <= 0:
            return erased.conversations, done
        if connection.execute(sql.IS_OLD, [conversation_id, before, before]).fetchone():
            part = _delete_conversation(connection, conversation_id, rest)
            erased = erased.plus(part)
            if not part.conversations:
                return erased.conversations, done
    return erased.conversations, len(ids)


def _delete_conversation(
    connection: sqlite3.Connection, conversation_id: str, limit: int
) -> DeletedCounts:
    """Delete the oldest messages of a conversation, and it with the last, or later with others."""
    erased = _delete_messages(connection, "conversation_id", conversation_id, limit)
    if erased.messages < limit:
        connection.execute(sql.DELETE_CONVERSATION, [conversation_id])
        erased = erased._replace(conversations=1)
    return erased


def _delete_messages(
    connection: sqlite3.Connection, owner: str, owner_id: str, limit: int
) -> DeletedCounts:
    """Delete up to `limit` messages with their traces."""
    count, delete = sql.DELETE_SOME_MESSAGES[owner]
    (traces,) = connection.execute(count, [owner_id, limit]).fetchone()
    return DeletedCounts(0, connection.execute(delete, [owner_id, limit]).rowcount, traces)
