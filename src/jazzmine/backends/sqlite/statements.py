"""The statements of the store, by name. Reads return an id and a body, then what they say."""

from __future__ import annotations

import functools
from typing import Literal

from jazzmine.records.base import RecordKind

__all__ = [
    "CONVERSATION",
    "CONVERSATION_COLUMNS",
    "CONVERSATION_OF_MESSAGE",
    "CONVERSATION_OF_USER",
    "COPIED_IDS",
    "COPY_MESSAGES",
    "COPY_TRACES",
    "DELETE_CONVERSATION",
    "DELETE_LATER_MESSAGES",
    "DELETE_MESSAGE",
    "DELETE_MESSAGES",
    "DELETE_MESSAGE_AT",
    "DELETE_OTHER_TRACE",
    "DELETE_SOME_MESSAGES",
    "DELETE_TRACES_OF_USER",
    "FLAG_MESSAGE",
    "IS_MESSAGE_OF",
    "IS_OLD",
    "IS_TRACE_OF",
    "LOG_END",
    "MESSAGE",
    "MESSAGE_COLUMNS",
    "MESSAGE_COUNT",
    "MESSAGE_CURSOR",
    "MOVE_USER",
    "NEWEST_OF_ALL",
    "NEWEST_SEQUENCES",
    "NEXT_MESSAGES",
    "OLD_CONVERSATIONS",
    "OLD_CONVERSATIONS_OF_USER",
    "PING",
    "RAISE_LAST_UPDATED",
    "STORED",
    "STORE_CONVERSATION",
    "STORE_MESSAGE",
    "STORE_TRACE",
    "TRACE",
    "TRACES_OF_CONVERSATION",
    "TRACE_COLUMNS",
    "TRACE_OF_MESSAGE",
    "Listing",
    "messages_by_ids",
    "next_stored",
]

PING = "SELECT count(*) FROM jazzmine_migrations"

# The columns in the order of the values of rows.py.
CONVERSATION_COLUMNS = "id, user_id, agent_id, last_updated_at, body"
MESSAGE_COLUMNS = "id, conversation_id, user_id, timestamp, is_flagged, is_call, body"
TRACE_COLUMNS = (
    "id, message_id, conversation_id, user_id, agent_id, turn_number, started_at_ms,"
    " total_latency_ms, total_prompt_tokens, total_completion_tokens, total_tokens,"
    " total_energy_kwh, total_co2_g, cached_prompt_tokens, cache_write_tokens, reasoning_tokens,"
    " cost_usd, unreported_calls, unpriced_calls, detected_intent, has_errors, is_copy, body"
)


# Writes. A record that is stored again unchanged is not written.


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
_LAST_NUMBER = """max(
    coalesce((SELECT max(seq) FROM stored_messages), 0), (SELECT last FROM message_numbers))"""

STORE_CONVERSATION = _upsert("stored_conversations", CONVERSATION_COLUMNS, "body <> excluded.body")

# It changes no row if the message is stored in another conversation.
STORE_MESSAGE = _upsert(
    "stored_messages",
    MESSAGE_COLUMNS,
    "conversation_id = excluded.conversation_id AND body <> excluded.body",
    f"1 + {_LAST_NUMBER}",
)

# After the values come the ids of the message and of the conversation. It changes no row if the
# message is not in that conversation, or the id is that of another message's trace.
STORE_TRACE = _upsert(
    "stored_turn_traces",
    TRACE_COLUMNS,
    "message_id = excluded.message_id AND body <> excluded.body",
    rows="FROM stored_messages WHERE id = ? AND conversation_id = ?",
)
DELETE_OTHER_TRACE = "DELETE FROM stored_turn_traces WHERE message_id = ? AND id <> ?"

# Another program may have stored a body that is no JSON.
FLAG_MESSAGE = """
UPDATE stored_messages SET is_flagged = :flagged, body = CASE
    WHEN NOT json_valid(body) THEN body
    WHEN :flagged THEN json_set(body, '$.is_flagged', json('true'))
    ELSE json_remove(body, '$.is_flagged') END
WHERE id = :id AND is_flagged <> :flagged
"""
MOVE_USER = [
    f"""
UPDATE {table} SET user_id = :target, body = CASE
    WHEN json_valid(body) THEN json_set(body, '$.user_id', :target) ELSE body END
WHERE user_id = :source
"""
    for table in ("stored_conversations", "stored_messages", "stored_turn_traces")
]

DELETE_CONVERSATION = "DELETE FROM stored_conversations WHERE id = ?"
DELETE_MESSAGE = "DELETE FROM stored_messages WHERE id = ?"

IS_MESSAGE_OF = "SELECT 1 FROM stored_messages WHERE id = ? AND conversation_id = ?"
IS_TRACE_OF = "SELECT 1 FROM stored_turn_traces WHERE id = ? AND message_id = ?"
CONVERSATION_OF_MESSAGE = "SELECT conversation_id FROM stored_messages WHERE id = ?"


# A conversation as a log

# When a conversation was updated last, and the id and the time of its newest message.
LOG_END = """
SELECT conversations.last_updated_at, newest.id, newest.timestamp
FROM stored_conversations AS conversations LEFT JOIN stored_messages AS newest
ON newest.seq = (
    SELECT seq FROM stored_messages WHERE conversation_id = conversations.id
    ORDER BY timestamp DESC, seq DESC LIMIT 1)
WHERE conversations.id = ?
"""
RAISE_LAST_UPDATED = """
UPDATE stored_conversations SET last_updated_at = :latest, body = CASE
    WHEN json_valid(body) THEN json_set(body, '$.last_updated_at', :latest) ELSE body END
WHERE id = :id
"""
NEWEST_OF_ALL = """
SELECT id, body, seq FROM stored_messages WHERE conversation_id = ?
ORDER BY timestamp DESC, seq DESC LIMIT 1
"""
DELETE_MESSAGE_AT = "DELETE FROM stored_messages WHERE seq = ?"
DELETE_MESSAGES = "DELETE FROM stored_messages WHERE conversation_id = ?"
DELETE_LATER_MESSAGES = f"{DELETE_MESSAGES} AND (timestamp, seq) > (?, ?)"
MESSAGE_CURSOR = "SELECT timestamp, seq FROM stored_messages WHERE id = ? AND conversation_id = ?"

_UNTIL = """WHERE messages.conversation_id = :source
AND (messages.timestamp, messages.seq) <= (:time, :seq)"""
COPIED_IDS = f"SELECT id FROM stored_messages AS messages {_UNTIL} ORDER BY timestamp, seq"


def _copied(fields: dict[str, str], body: str) -> str:
    """Return the body with these fields as SQL."""
    changes = ", ".join(f"'$.{name}', {value}" for name, value in fields.items())
    return f"CASE WHEN json_valid({body}) THEN json_set({body}, {changes}) ELSE {body} END"


_NEW_ID = "jazzmine_forked_id(:salt, messages.id)"
COPY_MESSAGES = f"""
INSERT INTO stored_messages (seq, {MESSAGE_COLUMNS})
SELECT {_LAST_NUMBER} + row_number() OVER (ORDER BY timestamp, seq), new_id, :copy, user_id,
    timestamp, is_flagged, is_call,
    {_copied({"id": "new_id", "conversation_id": ":copy"}, "body")}
FROM (SELECT *, {_NEW_ID} AS new_id FROM stored_messages AS messages {_UNTIL})
"""
_OF_TRACE = {
    "id": "jazzmine_forked_id(:salt, traces.id)",
    "message_id": _NEW_ID,
    "conversation_id": ":copy",
}
COPY_TRACES = f"""
INSERT INTO stored_turn_traces ({TRACE_COLUMNS})
SELECT {", ".join(_OF_TRACE.values())}, {
    ", ".join(f"traces.{name}" for name in TRACE_COLUMNS.split(", ")[3:-2])
},
    1, {_copied({**_OF_TRACE, "copied_from": "traces.id"}, "traces.body")}
FROM stored_messages AS messages
JOIN stored_turn_traces AS traces ON traces.message_id = messages.id
{_UNTIL} ORDER BY traces.seq
"""


# Erasure and retention

# The numbers of the records that were first stored last.
NEWEST_SEQUENCES = """
SELECT (SELECT max(seq) FROM stored_conversations), (SELECT max(seq) FROM stored_messages),
    (SELECT max(seq) FROM stored_turn_traces)
"""
DELETE_TRACES_OF_USER = """
DELETE FROM stored_turn_traces WHERE seq IN (
    SELECT seq FROM stored_turn_traces WHERE user_id = ? AND seq <= ? LIMIT ?)
"""
CONVERSATION_OF_USER = """
SELECT id FROM stored_conversations WHERE user_id = ? AND seq <= ? LIMIT 1
"""


def _delete_some(owner: str) -> tuple[str, str]:
    """Return the statements that count the traces of some messages, and delete the messages."""
    some = f"FROM stored_messages WHERE {owner} = ? AND seq <= ? ORDER BY timestamp, seq LIMIT ?"
    return (
        f"SELECT count(*) FROM stored_turn_traces WHERE message_id IN (SELECT id {some})",
        f"DELETE FROM stored_messages WHERE seq IN (SELECT seq {some})",
    )


DELETE_SOME_MESSAGES = {owner: _delete_some(owner) for owner in ("user_id", "conversation_id")}

# The conversations are chosen from the index alone, and their rows are not read.
_LATER_MESSAGE = "SELECT 1 FROM stored_messages WHERE conversation_id = {} AND timestamp >= ?"
_OLD = f"""
SELECT id, body, last_updated_at, seq FROM stored_conversations WHERE seq IN (
    SELECT seq FROM stored_conversations AS old
    WHERE last_updated_at < ? AND (last_updated_at, seq) > (?, ?) {{of_user}} AND NOT EXISTS (
        {_LATER_MESSAGE.format("(SELECT id FROM stored_conversations WHERE seq = old.seq)")})
    ORDER BY last_updated_at, seq LIMIT ?)
ORDER BY last_updated_at, seq
"""
OLD_CONVERSATIONS = _OLD.format(of_user="")
OLD_CONVERSATIONS_OF_USER = _OLD.format(of_user="AND user_id = ?")
IS_OLD = f"""
SELECT body FROM stored_conversations AS old WHERE id = ? AND last_updated_at < ?
AND NOT EXISTS ({_LATER_MESSAGE.format("old.id")})
"""


# Reads

CONVERSATION = "SELECT id, body FROM stored_conversations WHERE id = ?"
MESSAGE = "SELECT id, body FROM stored_messages WHERE id = ?"
TRACE = "SELECT id, body FROM stored_turn_traces WHERE id = ?"
TRACE_OF_MESSAGE = "SELECT id, body FROM stored_turn_traces WHERE message_id = ?"

STORED: dict[RecordKind, str] = {
    "conversations": CONVERSATION,
    "messages": MESSAGE,
    "traces": TRACE,
}

# With the cursor of the next page.
NEXT_MESSAGES = """
SELECT id, body, timestamp, seq FROM stored_messages
WHERE conversation_id = ? AND (timestamp, seq) > (?, ?) ORDER BY timestamp, seq LIMIT ?
"""

TRACES_OF_CONVERSATION = """
SELECT id, body FROM stored_turn_traces WHERE conversation_id = ? ORDER BY turn_number, seq
"""


MESSAGE_COUNT = "SELECT count(*) FROM stored_messages WHERE conversation_id = ?"


@functools.lru_cache(maxsize=64)
def messages_by_ids(count: int) -> str:
    """Return the statement for the messages with `count` ids, in any order."""
    return f"SELECT id, body FROM stored_messages WHERE id IN ({', '.join('?' * count)})"


@functools.cache
def next_stored(table: str) -> str:
    """Return the statement for the records after a number, with their own, as first stored."""
    return f"SELECT id, body, seq FROM {table} WHERE seq > ? ORDER BY seq LIMIT ?"


class Listing:
    """The statements for pages of an owner's records.

    Args:
        table: the table of the records.
        owner: the column of the owner's id.
        time: the column by which the records are sorted, and then by `seq`.
        direction: "ASC" for the oldest first, "DESC" for the newest first.
        condition: what else the records of a page have to meet.
    """

    def __init__(
        self,
        table: str,
        owner: str,
        time: str,
        direction: Literal["ASC", "DESC"],
        condition: str = "true",
    ) -> None:
        sign = ">" if direction == "ASC" else "<"
        page = f"SELECT id, body FROM {table} WHERE {owner} = ? AND {condition}"
        order = f"ORDER BY {time} {direction}, seq {direction} LIMIT ?"
        self.first: str = f"{page} {order}"
        self.cursor: str = f"SELECT {time}, seq FROM {table} WHERE id = ? AND {owner} = ?"
        self.next: str = f"{page} AND ({time}, seq) {sign} (?, ?) {order}"
