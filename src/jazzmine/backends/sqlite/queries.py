"""The queries for records; each returns an id and a body, then what its statement says."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Literal

from jazzmine.backends.sqlite.connection import as_text
from jazzmine.backends.sqlite.rows import TABLES
from jazzmine.records.base import FlaggedShown
from jazzmine.records.conversation_log import unknown_after
from jazzmine.records.rows import Row
from jazzmine.records.types import MAX_INT

STORED = {kind: f"SELECT id, body FROM {table} WHERE id = ?" for kind, table in TABLES.items()}
TRACE_OF_MESSAGE = "SELECT id, body FROM stored_turn_traces WHERE message_id = ?"

# Those after a number, with their own, as first stored.
NEXT_STORED = {
    kind: f"SELECT id, body, seq FROM {table} WHERE seq > ? ORDER BY seq LIMIT ?"
    for kind, table in TABLES.items()
}

# With the cursor of the next page.
NEXT_MESSAGES = """
SELECT id, body, timestamp, seq FROM stored_messages
WHERE conversation_id = ? AND (timestamp, seq) > (?, ?) ORDER BY timestamp, seq LIMIT ?
"""

TRACES_OF_CONVERSATION = """
SELECT id, body FROM stored_turn_traces WHERE conversation_id = ? ORDER BY turn_number, seq
"""

# The conversations are chosen from the index alone, and their rows are not read.
_LATER_MESSAGE = "SELECT 1 FROM stored_messages WHERE conversation_id = {} AND timestamp >= :before"
_OLD = f"""
SELECT id, body, last_updated_at, seq FROM stored_conversations WHERE seq IN (
    SELECT seq FROM stored_conversations AS old
    WHERE last_updated_at < :before AND (last_updated_at, seq) > (:time, :seq) {{of_user}}
    AND NOT EXISTS (
        {_LATER_MESSAGE.format("(SELECT id FROM stored_conversations WHERE seq = old.seq)")})
    ORDER BY last_updated_at, seq LIMIT :limit)
ORDER BY last_updated_at, seq
"""
OLD_CONVERSATIONS = {
    False: _OLD.format(of_user=""),
    True: _OLD.format(of_user="AND user_id = :user"),
}
"""The next conversations to prune, of all users or of one."""

IS_OLD = f"""
SELECT body FROM stored_conversations AS old WHERE id = :id AND last_updated_at < :before
AND NOT EXISTS ({_LATER_MESSAGE.format("old.id")})
"""

_MESSAGE_COUNT = "SELECT count(*) FROM stored_messages WHERE conversation_id = ?"

# The numbers of the records that were first stored last.
_NEWEST_SEQUENCES = "SELECT " + ", ".join(
    f"(SELECT coalesce(max(seq), 0) FROM {table})" for table in TABLES.values()
)

# SQLite takes 32,766 parameters.
_IDS_AT_ONCE = 30_000


# The condition of a list, by which flagged messages it has.
SHOWN: dict[FlaggedShown, str] = {
    "none": "NOT is_flagged",
    "calls": "(NOT is_flagged OR is_call)",
    "all": "true",
}


def row(connection: sqlite3.Connection, statement: str, key: str) -> Row | None:
    """Return the row of a key."""
    found: Row | None = connection.execute(statement, [key]).fetchone()
    return found


def rows(connection: sqlite3.Connection, statement: str, parameters: Sequence[object]) -> list[Row]:
    """Return the rows of a statement."""
    return connection.execute(statement, parameters).fetchall()


def limit_of(count: int | None) -> int:
    """Return a limit or an offset for SQLite; None is no limit."""
    return -1 if count is None else min(count, MAX_INT)


def page(
    connection: sqlite3.Connection,
    table: str,
    order: Literal["timestamp ASC", "timestamp DESC", "last_updated_at DESC", "started_at_ms DESC"],
    conditions: Mapping[str, object],
    limit: int | None,
    after: str | None,
    offset: int = 0,
) -> list[Row]:
    """Return the rows of a page.

    Args:
        connection: where they are read.
        table: the table of the records.
        order: the column by which they are sorted, and then by `seq`, and the direction.
        conditions: what they have to meet, each with its parameter, or None if it has none. The
            first one is that of the owner.
        limit: how many at most; None is no limit.
        after: the id of the last record of the page before, or None.
        offset: how many of the first records to skip.

    Raises:
        NotFoundError: the page should start after a record that is not the owner's.
    """
    time, direction = order.split()
    owner, parameter = next(iter(conditions.items()))
    wanted = " AND ".join(conditions)
    parameters = [value for value in conditions.values() if value is not None]
    if after is not None:
        query = f"SELECT {time}, seq FROM {table} WHERE {owner} AND id = ?"
        about = [after] if parameter is None else [parameter, after]
        cursor = connection.execute(query, about).fetchone()
        if cursor is None:
            raise unknown_after(after)
        wanted += f" AND ({time}, seq) {'>' if direction == 'ASC' else '<'} (?, ?)"
        parameters += cursor
    statement = (
        f"SELECT id, body FROM {table} WHERE {wanted}"
        f" ORDER BY {time} {direction}, seq {direction} LIMIT ? OFFSET ?"
    )
    parameters += [limit_of(limit), limit_of(offset)]
    return connection.execute(statement, parameters).fetchall()


def messages_by_ids(connection: sqlite3.Connection, message_ids: Sequence[str]) -> list[Row]:
    """Return the rows of those messages that are stored, in the order of the ids."""
    found: dict[str, Row] = {}
    for first in range(0, len(message_ids), _IDS_AT_ONCE):
        ids = list(dict.fromkeys(message_ids[first : first + _IDS_AT_ONCE]))
        # A power of two, so that few statements have to be prepared.
        count = min(1 << (len(ids) - 1).bit_length(), _IDS_AT_ONCE)
        ids += ids[-1:] * (count - len(ids))
        marks = ", ".join("?" * count)
        statement = f"SELECT id, body FROM stored_messages WHERE id IN ({marks})"
        for row in connection.execute(statement, ids):
            found[as_text(row[0])] = row
    wanted = map(found.get, message_ids)
    return [row for row in wanted if row is not None]


def count_messages(
    connection: sqlite3.Connection, conversation_ids: Sequence[str]
) -> dict[str, int]:
    """Return how many messages some conversations have."""
    return {
        conversation_id: connection.execute(_MESSAGE_COUNT, [conversation_id]).fetchone()[0]
        for conversation_id in conversation_ids
    }


def newest_sequence(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Return the numbers of the conversation, message and trace that were first stored last."""
    conversation, message, trace = connection.execute(_NEWEST_SEQUENCES).fetchone()
    return conversation, message, trace
