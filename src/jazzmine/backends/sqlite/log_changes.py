"""What the methods that treat a conversation as a log change in a write transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from jazzmine.backends.sqlite.queries import STORED, messages_by_ids
from jazzmine.backends.sqlite.rows import MESSAGE_COLUMNS, TRACE_COLUMNS, message_values
from jazzmine.backends.sqlite.writes import LAST_NUMBER, STORE_MESSAGE, put_conversation, put_trace
from jazzmine.errors import ConflictError, NotFoundError
from jazzmine.records.conversation_log import Refusal, forked_id, not_before
from jazzmine.records.hook_arguments import Append, Fork
from jazzmine.records.log import ANY, NOTHING
from jazzmine.records.rows import Row
from jazzmine.records.types import MAX_INT, MIN_INT

# When a conversation was updated last, and the id and the time of its newest message.
_LOG_END = """
SELECT conversations.last_updated_at, newest.id, newest.timestamp
FROM stored_conversations AS conversations LEFT JOIN stored_messages AS newest
ON newest.seq = (
    SELECT seq FROM stored_messages WHERE conversation_id = conversations.id
    ORDER BY timestamp DESC, seq DESC LIMIT 1)
WHERE conversations.id = ?
"""
_RAISE_LAST_UPDATED = """
UPDATE stored_conversations SET last_updated_at = :latest, body = CASE
    WHEN json_valid(body) THEN json_set(body, '$.last_updated_at', :latest) ELSE body END
WHERE id = :id
"""
_NEWEST_OF_ALL = """
SELECT id, body, seq FROM stored_messages WHERE conversation_id = ?
ORDER BY timestamp DESC, seq DESC LIMIT 1
"""
_DELETE_LATER = """
DELETE FROM stored_messages WHERE conversation_id = ? AND (timestamp, seq) > (?, ?)
"""
_CURSOR = "SELECT timestamp, seq FROM stored_messages WHERE id = ? AND conversation_id = ?"
_BEFORE_ALL, _AFTER_ALL = (MIN_INT, 0), (MAX_INT, MAX_INT)

_UNTIL = """WHERE messages.conversation_id = :source
AND (messages.timestamp, messages.seq) <= (:time, :seq)"""
_COPIED_IDS = f"SELECT id FROM stored_messages AS messages {_UNTIL} ORDER BY timestamp, seq"


def _copied(fields: dict[str, str], body: str) -> str:
    """Return the body with these fields as SQL."""
    changes = ", ".join(f"'$.{name}', {value}" for name, value in fields.items())
    return f"CASE WHEN json_valid({body}) THEN json_set({body}, {changes}) ELSE {body} END"


_NEW_ID = "jazzmine_forked_id(:salt, messages.id)"
_COPY_MESSAGES = f"""
INSERT INTO stored_messages (seq, {MESSAGE_COLUMNS})
SELECT {LAST_NUMBER} + row_number() OVER (ORDER BY timestamp, seq), new_id, :copy, user_id,
    timestamp, is_flagged, is_call,
    {_copied({"id": "new_id", "conversation_id": ":copy"}, "body")}
FROM (SELECT *, {_NEW_ID} AS new_id FROM stored_messages AS messages {_UNTIL})
"""
_OF_TRACE = {
    "id": "jazzmine_forked_id(:salt, traces.id)",
    "message_id": _NEW_ID,
    "conversation_id": ":copy",
}
_COPY_TRACES = f"""
INSERT INTO stored_turn_traces ({TRACE_COLUMNS})
SELECT {", ".join(_OF_TRACE.values())}, {
    ", ".join(f"traces.{name}" for name in TRACE_COLUMNS.split(", ")[3:-2])
},
    1, {_copied({**_OF_TRACE, "copied_from": "traces.id"}, "traces.body")}
FROM stored_messages AS messages
JOIN stored_turn_traces AS traces ON traces.message_id = messages.id
{_UNTIL} ORDER BY traces.seq
"""


def append(connection: sqlite3.Connection, given: Append) -> int | Refusal:
    """Append messages, and return the floor of their timestamps, or why nothing was written."""
    conversation_id, messages, expected_last, trace, replace_after = given
    end = connection.execute(_LOG_END, [conversation_id]).fetchone()
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
        _, _, floor = connection.execute(_LOG_END, [conversation_id]).fetchone()
    floor = MIN_INT if floor is None else floor
    for message in messages:
        appended = not_before(floor, message)
        connection.execute(STORE_MESSAGE, message_values(appended.record, appended.json))
    if trace is not None:
        put_trace(connection, trace)
    latest = max(floor, messages[-1].record.timestamp)
    if last_updated_at < latest:
        connection.execute(_RAISE_LAST_UPDATED, {"latest": latest, "id": conversation_id})
    return int(floor)


def pop(
    connection: sqlite3.Connection, conversation_id: str, check: Callable[[Row], object]
) -> Row | None:
    """Delete the newest message and return its row, or None."""
    row: Row | None = connection.execute(_NEWEST_OF_ALL, [conversation_id]).fetchone()
    if row is not None:
        check(row)
        connection.execute("DELETE FROM stored_messages WHERE seq = ?", [row[2]])
    return row


def rewind(connection: sqlite3.Connection, conversation_id: str, after: str | None) -> int:
    """Delete the messages after one, or all; return how many."""
    cursor = _BEFORE_ALL if after is None else _cursor(connection, conversation_id, after)
    return connection.execute(_DELETE_LATER, [conversation_id, *cursor]).rowcount


def fork(connection: sqlite3.Connection, fork: Fork) -> dict[str, str]:
    """Store a conversation with copies of messages and traces; return the ids of copies."""
    conversation_id, until, copy, salt = fork
    stored = STORED["conversations"]
    if connection.execute(stored, [conversation_id]).fetchone() is None:
        raise NotFoundError(f"conversation {conversation_id!r} is not stored")
    last = _AFTER_ALL if until is None else _cursor(connection, conversation_id, until)
    owner = copy.record.id
    if connection.execute(stored, [owner]).fetchone() is not None:
        raise ConflictError(f"conversation {owner!r} is stored already; fork to a new one")
    put_conversation(connection, copy)
    parameters = {
        "source": conversation_id,
        "time": last[0],
        "seq": last[1],
        "copy": owner,
        "salt": str(salt),
    }
    connection.execute(_COPY_MESSAGES, parameters)
    connection.execute(_COPY_TRACES, parameters)
    ids = connection.execute(_COPIED_IDS, parameters)
    return {message_id: forked_id(salt, message_id) for (message_id,) in ids}


def _cursor(connection: sqlite3.Connection, conversation_id: str, message_id: str) -> Row:
    cursor: Row | None
    cursor = connection.execute(_CURSOR, [message_id, conversation_id]).fetchone()
    if cursor is None:
        raise NotFoundError(f"message {message_id!r} is no message of this conversation")
    return cursor
