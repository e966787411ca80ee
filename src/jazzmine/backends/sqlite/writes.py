"""The changes of a write transaction, which check the rules between records."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jazzmine.backends.sqlite import statements as sql
from jazzmine.backends.sqlite.rows import conversation_values, message_values, trace_values
from jazzmine.errors import IntegrityError
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.hook_arguments import Turn
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.rows import Row
from jazzmine.records.traces import TurnTrace

__all__ = ["create", "move_user", "put", "put_conversation", "put_messages", "put_trace", "rewrite"]


def put(connection: sqlite3.Connection, turn: Turn) -> None:
    """Store some records; raises as the functions below.

    Args:
        connection: in a transaction.
        turn: the records.
    """
    for conversation in turn.conversations:
        put_conversation(connection, conversation)
    put_messages(connection, turn.messages)
    for trace in turn.traces:
        put_trace(connection, trace)


def put_conversation(connection: sqlite3.Connection, conversation: Snapshot[Conversation]) -> None:
    """Store a conversation; one that was stored before keeps its number."""
    values = conversation_values(conversation.record, conversation.json)
    connection.execute(sql.STORE_CONVERSATION, values)


def put_messages(connection: sqlite3.Connection, messages: Sequence[Snapshot[Message]]) -> None:
    """Store messages; one that was stored before keeps its number.

    Raises:
        IntegrityError: the conversation of one of them is not stored, or a message with its id is
            stored in another one.
    """
    for message in messages:
        try:
            values = message_values(message.record, message.json)
            if not connection.execute(sql.STORE_MESSAGE, values).rowcount:
                _require_same_conversation(connection, message.record)
        except sqlite3.IntegrityError:
            raise IntegrityError(
                f"message {message.record.id!r}: its conversation"
                f" {message.record.conversation_id!r} is not stored; store the conversation first"
            ) from None


def _require_same_conversation(connection: sqlite3.Connection, message: Message) -> None:
    parameters = [message.id, message.conversation_id]
    if connection.execute(sql.IS_MESSAGE_OF, parameters).fetchone() is None:
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
    connection.execute(sql.DELETE_OTHER_TRACE, [record.message_id, record.id])
    values = (*trace_values(record, trace.json), record.message_id, record.conversation_id)
    if connection.execute(sql.STORE_TRACE, values).rowcount:
        return
    row = connection.execute(sql.CONVERSATION_OF_MESSAGE, [record.message_id]).fetchone()
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
    if connection.execute(sql.IS_TRACE_OF, [record.id, record.message_id]).fetchone():
        return  # it is stored like this already
    raise IntegrityError(
        f"trace {record.id!r} belongs to another message,"
        f" it cannot become that of {record.message_id!r}"
    )


def create(connection: sqlite3.Connection, conversation: Snapshot[Conversation]) -> Row | None:
    """Store a conversation if its id is new; return the row that is stored already, or None."""
    row: Row | None = connection.execute(sql.CONVERSATION, [conversation.record.id]).fetchone()
    if row is None:
        put_conversation(connection, conversation)
    return row


def rewrite(
    connection: sqlite3.Connection,
    kind: RecordKind,
    ids: Sequence[str],
    change: Callable[[Row], Snapshot[Any] | None],
) -> list[str]:
    """Store other versions of some records; return the ids of those that were there."""
    written = []
    for record_id in ids:
        row: Row | None = connection.execute(sql.STORED[kind], [record_id]).fetchone()
        changed = None if row is None else change(row)
        if changed is not None:
            _PUT[kind](connection, changed)
            written.append(record_id)
    return written


def _put_message(connection: sqlite3.Connection, message: Snapshot[Message]) -> None:
    put_messages(connection, [message])


_PUT: Mapping[RecordKind, Callable[[sqlite3.Connection, Snapshot[Any]], None]] = {
    "conversations": put_conversation,
    "messages": _put_message,
    "traces": put_trace,
}


def move_user(connection: sqlite3.Connection, from_user_id: str, to_user_id: str) -> int:
    """Make all records of one user another's; return how many."""
    values = {"source": from_user_id, "target": to_user_id}
    return sum(connection.execute(statement, values).rowcount for statement in sql.MOVE_USER)
