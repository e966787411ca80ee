"""The changes of a write transaction, which check the rules between records."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from jazzmine.backends.sqlite.queries import STORED
from jazzmine.backends.sqlite.rows import (
    CONVERSATION_COLUMNS,
    MESSAGE_COLUMNS,
    TABLES,
    TRACE_COLUMNS,
    conversation_values,
    message_values,
    trace_values,
)
from jazzmine.errors import IntegrityError
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.rows import Row
from jazzmine.records.traces import TurnTrace


def _upsert(table: str, columns: str, condition: str, number: str = "NULL", rows: str = "") -> str:
    names = columns.split(", ")
    values = ", ".join("?" for _ in names)
    changes = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
    given = f"SELECT {number}, {values} {rows}" if rows else f"VALUES ({number}, {values})"
    return f"""
INSERT INTO {table} (seq, {columns}) {given}
ON CONFLICT (id) DO UPDATE SET {changes} WHERE {condition}
"""


# The number of a deleted message is not used again.
LAST_NUMBER = """max(
    coalesce((SELECT max(seq) FROM stored_messages), 0), (SELECT last FROM message_numbers))"""

# A record that is stored again unchanged is not written.
_STORE_CONVERSATION = _upsert("stored_conversations", CONVERSATION_COLUMNS, "body <> excluded.body")

# It changes no row if the message is stored in another conversation.
STORE_MESSAGE = _upsert(
    "stored_messages",
    MESSAGE_COLUMNS,
    "conversation_id = excluded.conversation_id AND body <> excluded.body",
    f"1 + {LAST_NUMBER}",
)

# After the values come the ids of the message and of the conversation. It changes no row if the
# message is not in that conversation, or the id is that of another message's trace.
_STORE_TRACE = _upsert(
    "stored_turn_traces",
    TRACE_COLUMNS,
    "message_id = excluded.message_id AND body <> excluded.body",
    rows="FROM stored_messages WHERE id = ? AND conversation_id = ?",
)
_DELETE_OTHER_TRACE = "DELETE FROM stored_turn_traces WHERE message_id = ? AND id <> ?"
_CONVERSATION_OF_MESSAGE = "SELECT conversation_id FROM stored_messages WHERE id = ?"
_MESSAGE_OF_TRACE = "SELECT message_id FROM stored_turn_traces WHERE id = ?"

# Another program may have stored a body that is no JSON.
_FLAG_MESSAGE = """
UPDATE stored_messages SET is_flagged = :flagged, body = CASE
    WHEN NOT json_valid(body) THEN body
    WHEN :flagged THEN json_set(body, '$.is_flagged', json('true'))
    ELSE json_remove(body, '$.is_flagged') END
WHERE id = :id AND is_flagged <> :flagged
"""
_MOVE_USER = """
UPDATE {} SET user_id = :target, body = CASE
    WHEN json_valid(body) THEN json_set(body, '$.user_id', :target) ELSE body END
WHERE user_id = :source
"""


def put(
    connection: sqlite3.Connection,
    conversations: Sequence[Snapshot[Conversation]] = (),
    messages: Sequence[Snapshot[Message]] = (),
    traces: Sequence[Snapshot[TurnTrace]] = (),
) -> None:
    """Store some records; one that was stored before keeps its number.

    Raises:
        IntegrityError: the conversation of a message is not stored, or a message with its id is
            stored in another one; or as `put_trace`.
    """
    for conversation in conversations:
        put_conversation(connection, conversation)
    for message in messages:
        record = message.record
        try:
            values = message_values(record, message.json)
            if not connection.execute(STORE_MESSAGE, values).rowcount:
                _require_same_conversation(connection, record)
        except sqlite3.IntegrityError:
            raise IntegrityError(
                f"message {record.id!r}: its conversation {record.conversation_id!r}"
                " is not stored; store the conversation first"
            ) from None
    for trace in traces:
        put_trace(connection, trace)


def put_conversation(connection: sqlite3.Connection, conversation: Snapshot[Conversation]) -> None:
    """Store a conversation; one that was stored before keeps its number."""
    values = conversation_values(conversation.record, conversation.json)
    connection.execute(_STORE_CONVERSATION, values)


def _require_same_conversation(connection: sqlite3.Connection, message: Message) -> None:
    (owner,) = connection.execute(_CONVERSATION_OF_MESSAGE, [message.id]).fetchone()
    if owner != message.conversation_id:
        raise IntegrityError(
            f"message {message.id!r} is stored in another conversation"
            f" than {message.conversation_id!r}"
        )


def put_trace(connection: sqlite3.Connection, trace: Snapshot[TurnTrace]) -> None:
    """Store the trace of a message, in place of its previous trace.

    Raises:
        IntegrityError: the message is not stored in the trace's conversation, or the trace belongs
            to another message.
    """
    record = trace.record
    connection.execute(_DELETE_OTHER_TRACE, [record.message_id, record.id])
    values = (*trace_values(record, trace.json), record.message_id, record.conversation_id)
    if connection.execute(_STORE_TRACE, values).rowcount:
        return
    row = connection.execute(_CONVERSATION_OF_MESSAGE, [record.message_id]).fetchone()
    if row is None:
        raise IntegrityError(
            f"trace {record.id!r}: its message {record.message_id!r}"
            " is not stored; store the message first"
        )
    if row[0] != record.conversation_id:
        raise IntegrityError(
            f"trace {record.id!r} names the conversation {record.conversation_id!r},"
            " but its message is of another one"
        )
    if connection.execute(_MESSAGE_OF_TRACE, [record.id]).fetchone()[0] != record.message_id:
        raise IntegrityError(
            f"trace {record.id!r} belongs to another message,"
            f" it cannot become that of {record.message_id!r}"
        )


def create(connection: sqlite3.Connection, conversation: Snapshot[Conversation]) -> Row | None:
    """Store a conversation if its id is new; return the row that is stored already, or None."""
    statement, key = STORED["conversations"], conversation.record.id
    row: Row | None = connection.execute(statement, [key]).fetchone()
    if row is None:
        put_conversation(connection, conversation)
    return row


def flag_message(connection: sqlite3.Connection, message_id: str, flagged: bool) -> bool:
    """Set a message's flag; return whether the message is stored."""
    connection.execute(_FLAG_MESSAGE, {"id": message_id, "flagged": flagged})
    return connection.execute(_CONVERSATION_OF_MESSAGE, [message_id]).fetchone() is not None


def delete(connection: sqlite3.Connection, kind: RecordKind, record_id: str) -> bool:
    """Delete a record and all that belongs to it; return whether it was stored."""
    return connection.execute(f"DELETE FROM {TABLES[kind]} WHERE id = ?", [record_id]).rowcount > 0


def rewrite(
    connection: sqlite3.Connection,
    kind: RecordKind,
    ids: Sequence[str],
    change: Callable[[Row], Snapshot[Any] | None],
) -> list[str]:
    """Store other versions of some records; return the ids of those that were there."""
    written = []
    for record_id in ids:
        row: Row | None = connection.execute(STORED[kind], [record_id]).fetchone()
        changed = None if row is None else change(row)
        if changed is not None:
            put(connection, **{kind: [changed]})
            written.append(record_id)
    return written


def move_user(connection: sqlite3.Connection, from_user_id: str, to_user_id: str) -> int:
    """Make all records of one user another's; return how many."""
    values = {"source": from_user_id, "target": to_user_id}
    return sum(
        connection.execute(_MOVE_USER.format(table), values).rowcount for table in TABLES.values()
    )
