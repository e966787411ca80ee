"""What the methods that treat a conversation as a log change in a write transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from jazzmine.backends.sqlite import search
from jazzmine.backends.sqlite import statements as sql
from jazzmine.backends.sqlite.queries import messages_by_ids
from jazzmine.backends.sqlite.rows import message_values
from jazzmine.backends.sqlite.writes import put_conversation, put_trace
from jazzmine.errors import ConflictError, NotFoundError
from jazzmine.records.conversation_log import Refusal, not_before
from jazzmine.records.hook_arguments import Append, Fork
from jazzmine.records.log import ANY, NOTHING
from jazzmine.records.rows import Row
from jazzmine.records.types import MAX_INT, MIN_INT

__all__ = ["append", "fork", "pop", "rewind"]

_NEWEST = (MAX_INT, MAX_INT)


def append(connection: sqlite3.Connection, given: Append) -> int | Refusal:
    """Append messages, and return the floor of their timestamps, or why nothing was written."""
    conversation_id, messages, expected_last, trace, replace_after = given
    end = connection.execute(sql.LOG_END, [conversation_id]).fetchone()
    stored = messages_by_ids(connection, [message.record.id for message in messages])
    if end is None:
        return Refusal(is_known=False, newest_id=None, stored=stored)
    last_updated_at, newest_id, floor = end
    if stored or expected_last not in (ANY, newest_id):
        return Refusal(is_known=True, newest_id=newest_id, stored=stored)
    if replace_after is not NOTHING:
        try:
            rewind(connection, conversation_id, replace_after)
        except NotFoundError:
            return Refusal(is_known=True, newest_id=newest_id, stored=stored, replaced=False)
        _, _, floor = connection.execute(sql.LOG_END, [conversation_id]).fetchone()
    floor = MIN_INT if floor is None else floor
    for message in messages:
        appended = not_before(floor, message)
        connection.execute(sql.STORE_MESSAGE, message_values(appended.record, appended.json))
    if trace is not None:
        put_trace(connection, trace)
    latest = max(floor, messages[-1].record.timestamp)
    if last_updated_at < latest:
        connection.execute(sql.RAISE_LAST_UPDATED, {"latest": latest, "id": conversation_id})
    return int(floor)


def pop(
    connection: sqlite3.Connection, conversation_id: str, check: Callable[[Row], object]
) -> Row | None:
    """Delete the newest message and return its row, or None."""
    row: Row | None = connection.execute(sql.NEWEST_OF_ALL, [conversation_id]).fetchone()
    if row is not None:
        check(row)
        connection.execute(sql.DELETE_MESSAGE_AT, [row[2]])
    return row


def rewind(connection: sqlite3.Connection, conversation_id: str, after: str | None) -> int:
    """Delete the messages after one, or all; return how many."""
    if after is None:
        return connection.execute(sql.DELETE_MESSAGES, [conversation_id]).rowcount
    cursor = _cursor(connection, conversation_id, after)
    return connection.execute(sql.DELETE_LATER_MESSAGES, [conversation_id, *cursor]).rowcount


def fork(connection: sqlite3.Connection, fork: Fork) -> list[str]:
    """Store a conversation with copies of messages and traces; return the ids of the copied."""
    conversation_id, until, copy, salt = fork
    if connection.execute(sql.CONVERSATION, [conversation_id]).fetchone() is None:
        raise NotFoundError(f"conversation {conversation_id!r} is not stored")
    last = _NEWEST if until is None else _cursor(connection, conversation_id, until)
    owner = copy.record.id
    if connection.execute(sql.CONVERSATION, [owner]).fetchone() is not None:
        raise ConflictError(f"conversation {owner!r} is stored already; fork to a new one")
    put_conversation(connection, copy)
    parameters = {
        "source": conversation_id,
        "time": last[0],
        "seq": last[1],
        "copy": owner,
        "salt": str(salt),
    }
    connection.execute(sql.COPY_MESSAGES, parameters)
    connection.execute(sql.COPY_TRACES, parameters)
    search.copy_entries(connection, conversation_id, last, owner)
    return [row[0] for row in connection.execute(sql.COPIED_IDS, parameters)]


def _cursor(connection: sqlite3.Connection, conversation_id: str, message_id: str) -> Row:
    cursor: Row | None
    cursor = connection.execute(sql.MESSAGE_CURSOR, [message_id, conversation_id]).fetchone()
    if cursor is None:
        raise NotFoundError(f"message {message_id!r} is no message of this conversation")
    return cursor
