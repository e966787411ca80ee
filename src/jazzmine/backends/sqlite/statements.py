"""The statements of the store, by name. Reads return an id and a body, then what they say."""

from __future__ import annotations

import functools
from typing import Literal

__all__ = [
    "CONVERSATION",
    "CONVERSATION_OF_USER",
    "DELETE_CONVERSATION",
    "DELETE_LATER_MESSAGES",
    "DELETE_MESSAGE",
    "DELETE_MESSAGES",
    "DELETE_OTHER_TRACE",
    "DELETE_SOME_MESSAGES",
    "DELETE_TRACES_OF_USER",
    "HAS_CONVERSATION",
    "HAS_MESSAGE",
    "IS_OLD",
    "LOG_END",
    "MESSAGE",
    "MESSAGES_UNTIL",
    "NEWEST",
    "NEWEST_AND_CALLS",
    "NEWEST_AS_ARRAY",
    "NEWEST_OF_ALL",
    "NEXT_MESSAGES",
    "OLDER",
    "OLDER_AND_CALLS",
    "OLD_CONVERSATIONS",
    "PING",
    "RAISE_LAST_UPDATED",
    "STORE_CONVERSATION",
    "STORE_MESSAGE",
    "STORE_TRACE",
    "TRACE",
    "TRACES_OF_AGENT",
    "TRACES_OF_CONVERSATION",
    "TRACES_UNTIL",
    "TRACE_CURSOR",
    "TRACE_OF_MESSAGE",
    "Listing",
    "messages_by_ids",
    "next_stored",
]

PING = "SELECT count(*) FROM jazzmine_migrations"


# Writes. A record that is stored again unchanged is not written.


def _upsert(table: str, columns: str, condition: str, number: str = "NULL") -> str:
    names = columns.split(", ")
    values = ", ".join("?" for _ in names)
    changes = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
    return f"""
INSERT INTO {table} (seq, {columns}) VALUES ({number}, {values})
ON CONFLICT (id) DO UPDATE SET {changes} WHERE {condition}
"""


STORE_CONVERSATION = _upsert(
    "stored_conversations", "id, user_id, agent_id, last_updated_at, body", "body <> excluded.body"
)
STORE_MESSAGE = _upsert(
    "stored_messages",
    "id, conversation_id, user_id, timestamp, is_flagged, body",
    "body <> excluded.body",
    """1 + max(
    coalesce((SELECT max(seq) FROM stored_messages), 0), (SELECT last FROM message_numbers))""",
)

# It changes no row if the id is that of another message's trace.
STORE_TRACE = _upsert(
    "stored_turn_traces",
    "id, message_id, conversation_id, user_id, agent_id, turn_number, started_at_ms,"
    " total_latency_ms, total_prompt_tokens, total_completion_tokens, total_tokens,"
    " total_energy_kwh, total_co2_g, detected_intent, has_errors, body",
    "message_id = excluded.message_id",
)
DELETE_OTHER_TRACE = "DELETE FROM stored_turn_traces WHERE message_id = ? AND id <> ?"

DELETE_CONVERSATION = "DELETE FROM stored_conversations WHERE id = ?"
DELETE_MESSAGE = "DELETE FROM stored_messages WHERE id = ?"

HAS_CONVERSATION = "SELECT 1 FROM stored_conversations WHERE id = ?"
HAS_MESSAGE = "SELECT 1 FROM stored_messages WHERE id = ?"


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
# It changes no row if the body is not JSON.
RAISE_LAST_UPDATED = """
UPDATE stored_conversations
SET last_updated_at = :latest, body = json_set(body, '$.last_updated_at', :latest)
WHERE id = :id AND json_valid(body)
"""
NEWEST_OF_ALL = """
SELECT id, body, timestamp FROM stored_messages WHERE conversation_id = ?
ORDER BY timestamp DESC, seq DESC LIMIT 1
"""
DELETE_MESSAGES = "DELETE FROM stored_messages WHERE conversation_id = ?"
DELETE_LATER_MESSAGES = f"{DELETE_MESSAGES} AND (timestamp, seq) > (?, ?)"

_UNTIL = "WHERE messages.conversation_id = ? AND (messages.timestamp, messages.seq) <= (?, ?)"
MESSAGES_UNTIL = f"""
SELECT id, body FROM stored_messages AS messages {_UNTIL} ORDER BY timestamp, seq
"""
TRACES_UNTIL = f"""
SELECT traces.id, traces.body, traces.message_id
FROM stored_messages AS messages
JOIN stored_turn_traces AS traces ON traces.message_id = messages.id
{_UNTIL} ORDER BY traces.seq
"""


# Erasure and retention

DELETE_TRACES_OF_USER = """
DELETE FROM stored_turn_traces WHERE seq IN (
    SELECT seq FROM stored_turn_traces WHERE user_id = ? LIMIT ?)
"""
CONVERSATION_OF_USER = "SELECT id FROM stored_conversations WHERE user_id = ? LIMIT 1"


def _delete_some(owner: str) -> tuple[str, str]:
    """Return the statements that count the traces of some messages, and delete the messages."""
    some = f"FROM stored_messages WHERE {owner} = ? ORDER BY timestamp, seq LIMIT ?"
    return (
        f"SELECT count(*) FROM stored_turn_traces WHERE message_id IN (SELECT id {some})",
        f"DELETE FROM stored_messages WHERE seq IN (SELECT seq {some})",
    )


DELETE_SOME_MESSAGES = {owner: _delete_some(owner) for owner in ("user_id", "conversation_id")}

# The conversations are chosen from the index alone, and their rows are not read.
_LATER_MESSAGE = "SELECT 1 FROM stored_messages WHERE conversation_id = {} AND timestamp >= ?"
OLD_CONVERSATIONS = f"""
SELECT id, last_updated_at, seq FROM stored_conversations WHERE seq IN (
    SELECT seq FROM stored_conversations AS old
    WHERE last_updated_at < ? AND (last_updated_at, seq) > (?, ?) AND NOT EXISTS (
        {_LATER_MESSAGE.format("(SELECT id FROM stored_conversations WHERE seq = old.seq)")})
    ORDER BY last_updated_at, seq LIMIT ?)
ORDER BY last_updated_at, seq
"""
IS_OLD = f"""
SELECT 1 FROM stored_conversations AS old WHERE id = ? AND last_updated_at < ?
AND NOT EXISTS ({_LATER_MESSAGE.format("old.id")})
"""


# Reads

CONVERSATION = "SELECT id, body FROM stored_conversations WHERE id = ?"
MESSAGE = "SELECT id, body FROM stored_messages WHERE id = ?"
TRACE = "SELECT id, body FROM stored_turn_traces WHERE id = ?"
TRACE_OF_MESSAGE = "SELECT id, body FROM stored_turn_traces WHERE message_id = ?"

# The first: a conversation's newest messages that are not flagged; the second: and flagged ones of
# an assistant or a colleague. With a cursor, those before it.
_IS_CALL = """CASE WHEN json_valid(body) THEN json_extract(body, '$.role') END
    IN ('assistant', 'colleague_assistant')"""
NEWEST, NEWEST_AND_CALLS, OLDER, OLDER_AND_CALLS = (
    f"""
SELECT id, body FROM stored_messages WHERE conversation_id = ? AND {shown} {before}
ORDER BY timestamp DESC, seq DESC LIMIT ?
"""
    for before in ("", "AND (timestamp, seq) < (?, ?)")
    for shown in ("NOT is_flagged", f"(NOT is_flagged OR {_IS_CALL})")
)

# The number of rows of a query, and their bodies as one JSON array: for few rows, reading it is
# quicker than reading them.
NEWEST_AS_ARRAY = f"""
SELECT count(*), '[' || coalesce(group_concat(body, ','), '') || ']' FROM ({NEWEST})
"""

# With the cursor of the next page.
NEXT_MESSAGES = """
SELECT id, body, timestamp, seq FROM stored_messages
WHERE conversation_id = ? AND (timestamp, seq) > (?, ?) ORDER BY timestamp, seq LIMIT ?
"""

TRACES_OF_CONVERSATION = """
SELECT id, body FROM stored_turn_traces WHERE conversation_id = ? ORDER BY turn_number, seq
"""

# The traces that are left out are counted in the index, and not read.
TRACES_OF_AGENT = """
SELECT id, body FROM stored_turn_traces WHERE seq IN (
    SELECT seq FROM stored_turn_traces WHERE agent_id = ?
    ORDER BY started_at_ms DESC, seq DESC LIMIT ? OFFSET ?)
ORDER BY started_at_ms DESC, seq DESC
"""

TRACE_CURSOR = "SELECT started_at_ms, seq FROM stored_turn_traces WHERE id = ?"


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
    """

    def __init__(
        self, table: str, owner: str, time: str, direction: Literal["ASC", "DESC"]
    ) -> None:
        sign = ">" if direction == "ASC" else "<"
        order = f"ORDER BY {time} {direction}, seq {direction} LIMIT ?"
        self.first: str = f"SELECT id, body FROM {table} WHERE {owner} = ? {order}"
        self.cursor: str = f"SELECT {time}, seq FROM {table} WHERE id = ? AND {owner} = ?"
        self.next: str = f"""
SELECT id, body FROM {table} WHERE {owner} = ? AND ({time}, seq) {sign} (?, ?) {order}
"""
