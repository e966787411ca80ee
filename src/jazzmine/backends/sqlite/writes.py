"""The changes of a write transaction, which check the rules between records."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from jazzmine.backends.sqlite import statements as sql
from jazzmine.backends.sqlite.rows import (
    MESSAGES,
    as_bytes,
    conversation_values,
    message_values,
    trace_values,
)
from jazzmine.errors import IntegrityError
from jazzmine.records.base import Snapshot, snapshot
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import Repairs
from jazzmine.records.traces import TurnTrace

__all__ = ["delete", "flag_message", "put_conversation", "put_messages", "put_trace"]


def put_conversation(connection: sqlite3.Connection, conversation: Snapshot[Conversation]) -> None:
    """Store a conversation; one that was stored before keeps its number."""
    connection.execute(sql.STORE_CONVERSATION, conversation_values(conversation))


def put_messages(connection: sqlite3.Connection, messages: Sequence[Snapshot[Message]]) -> None:
    """Store messages; one that was stored before keeps its number.

    Raises:
        IntegrityError: the conversation of one of them is not stored.
    """
    try:
        for message in messages:
            connection.execute(sql.STORE_MESSAGE, message_values(message))
    except sqlite3.IntegrityError as error:
        raise _no_conversation(connection, messages) or error from None


def _no_conversation(
    connection: sqlite3.Connection, messages: Iterable[Snapshot[Message]]
) -> IntegrityError | None:
    for message in messages:
        record = message.record
        if connection.execute(sql.HAS_CONVERSATION, [record.conversation_id]).fetchone() is None:
            return IntegrityError(
                f"message {record.id!r}: its conversation {record.conversation_id!r}"
                " is not stored; store the conversation first"
            )
    return None


def put_trace(connection: sqlite3.Connection, trace: Snapshot[TurnTrace]) -> None:
    """Store the trace of a message, in place of its previous trace.

    Raises:
        IntegrityError: the message is not stored, or the trace belongs to another one.
    """
    record = trace.record
    connection.execute(sql.DELETE_OTHER_TRACE, [record.message_id, record.id])
    try:
        stored = connection.execute(sql.STORE_TRACE, trace_values(trace)).rowcount
    except sqlite3.IntegrityError:
        stored = 0
    if stored:
        return
    if connection.execute(sql.HAS_MESSAGE, [record.message_id]).fetchone() is None:
        raise IntegrityError(
            f"trace {record.id!r}: its message {record.message_id!r}"
            " is not stored; store the message first"
        )
    raise IntegrityError(
        f"trace {record.id!r} belongs to another message,"
        f" it cannot become that of {record.message_id!r}"
    )


def flag_message(
    connection: sqlite3.Connection, message_id: str, flagged: bool, repairs: Repairs
) -> bool:
    """Set or clear the flag of a message; return whether the message is stored.

    Raises:
        ValidationError: the stored message can be neither read nor repaired.
    """
    row = connection.execute(sql.MESSAGE, [message_id]).fetchone()
    if row is None:
        return False
    message = MESSAGES.record(as_bytes(row), repairs)
    if message.is_flagged != flagged:
        message.is_flagged = flagged
        put_messages(connection, [snapshot(message, Message)])
    return True


def delete(connection: sqlite3.Connection, statement: str, record_id: str) -> bool:
    """Delete a record and what belongs to it; return whether it was stored."""
    return connection.execute(statement, [record_id]).rowcount > 0
