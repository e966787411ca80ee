"""What the methods that treat a conversation as a log change in a write transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from uuid import UUID

from jazzmine.backends.sqlite import statements as sql
from jazzmine.backends.sqlite.queries import MESSAGES_BY, limit_of
from jazzmine.backends.sqlite.queries import messages_by_ids as rows_by_ids
from jazzmine.backends.sqlite.rows import CONVERSATIONS, MESSAGES, TRACES, Row, as_bytes
from jazzmine.backends.sqlite.writes import put_conversation, put_messages, put_trace
from jazzmine.errors import ConflictError, NotFoundError
from jazzmine.records.base import Snapshot, snapshot
from jazzmine.records.conversation_log import (
    Newest,
    forked_id,
    messages_to_append,
    unknown_conversation,
)
from jazzmine.records.log import AnyMessage
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import Repairs
from jazzmine.records.traces import TurnTrace

__all__ = ["append", "create", "fork", "pop", "rewind"]


def create(connection: sqlite3.Connection, conversation: Snapshot[Conversation]) -> Row:
    """Store a conversation if its id is new; return the row of the stored one."""
    row = connection.execute(sql.CONVERSATION, [conversation.record.id]).fetchone()
    if row is None:
        put_conversation(connection, conversation)
        return conversation.record.id.encode(), conversation.json
    return as_bytes(row)


def append(
    connection: sqlite3.Connection,
    conversation_id: str,
    messages: Sequence[Snapshot[Message]],
    expected_last: str | AnyMessage | None,
    repairs: Repairs,
) -> list[Message]:
    """Append messages, and return the stored ones; raises as the hook does."""
    end = connection.execute(sql.LOG_END, [conversation_id]).fetchone()
    if end is None:
        raise unknown_conversation(conversation_id)
    last_updated_at, newest_id, newest_timestamp = end
    given = [message.record for message in messages]
    rows = rows_by_ids(connection, [message.id for message in given])
    stored = [MESSAGES.record(as_bytes(row), repairs) for row in rows]
    newest = None if newest_id is None else Newest(newest_id, newest_timestamp)
    found = {message.id: message for message in stored}
    appended = messages_to_append(given, found, newest, expected_last)
    if not appended:
        return stored
    put_messages(connection, [Snapshot(message) for message in appended])
    latest = appended[-1].timestamp
    if last_updated_at < latest:
        _raise_last_updated(connection, conversation_id, latest, repairs)
    return appended


def _raise_last_updated(
    connection: sqlite3.Connection, conversation_id: str, latest: int, repairs: Repairs
) -> None:
    if connection.execute(
        sql.RAISE_LAST_UPDATED, {"latest": latest, "id": conversation_id}
    ).rowcount:
        return
    row = connection.execute(sql.CONVERSATION, [conversation_id]).fetchone()
    conversation = CONVERSATIONS.record(as_bytes(row), repairs)
    conversation.last_updated_at = latest
    put_conversation(connection, Snapshot(conversation))


def pop(connection: sqlite3.Connection, conversation_id: str, repairs: Repairs) -> Message | None:
    """Delete the newest message and return it, or None."""
    row = connection.execute(sql.NEWEST_OF_ALL, [conversation_id]).fetchone()
    if row is None:
        return None
    message = MESSAGES.record(as_bytes(row), repairs)
    connection.execute(sql.DELETE_MESSAGE, [row[0]])
    return message


def rewind(connection: sqlite3.Connection, conversation_id: str, after: str | None) -> int:
    """Delete the messages after one, or all; return how many."""
    if after is None:
        return connection.execute(sql.DELETE_MESSAGES, [conversation_id]).rowcount
    cursor = _cursor(connection, conversation_id, after)
    return connection.execute(sql.DELETE_LATER_MESSAGES, [conversation_id, *cursor]).rowcount


def fork(
    connection: sqlite3.Connection,
    conversation_id: str,
    until: str | None,
    copy: Snapshot[Conversation],
    salt: UUID,
    repairs: Repairs,
) -> dict[str, str]:
    """Store a conversation with copies of messages and traces; return the new ids by the old."""
    if connection.execute(sql.HAS_CONVERSATION, [conversation_id]).fetchone() is None:
        raise NotFoundError(f"conversation {conversation_id!r} is not stored")
    last: Row = (limit_of(2**63), limit_of(2**63))
    if until is not None:
        last = _cursor(connection, conversation_id, until)
    owner = copy.record.id
    if connection.execute(sql.HAS_CONVERSATION, [owner]).fetchone() is not None:
        raise ConflictError(f"conversation {owner!r} is stored already; fork to a new one")
    rows = connection.execute(sql.MESSAGES_UNTIL, [conversation_id, *last]).fetchall()
    traces = connection.execute(sql.TRACES_UNTIL, [conversation_id, *last]).fetchall()
    put_conversation(connection, copy)
    ids: dict[str, str] = {}
    for row in rows:
        ids[row[0]] = forked_id(salt, row[0])
        moved = {"id": ids[row[0]], "conversation_id": owner}
        message = MESSAGES.record(as_bytes(row), repairs).model_copy(update=moved)
        put_messages(connection, [snapshot(message, Message)])
    for row in traces:
        moved = {
            "id": forked_id(salt, row[0]),
            "message_id": ids[row[2]],
            "conversation_id": owner,
        }
        trace = TRACES.record(as_bytes(row), repairs).model_copy(update=moved)
        put_trace(connection, snapshot(trace, TurnTrace))
    return ids


def _cursor(connection: sqlite3.Connection, conversation_id: str, message_id: str) -> Row:
    by_conversation = MESSAGES_BY["conversation_id"]
    cursor: Row | None
    cursor = connection.execute(by_conversation.cursor, [message_id, conversation_id]).fetchone()
    if cursor is None:
        raise NotFoundError(f"message {message_id!r} is no message of this conversation")
    return cursor
