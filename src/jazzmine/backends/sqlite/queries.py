"""The queries for lists of messages and conversations."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import islice

from jazzmine.backends.sqlite import statements as sql
from jazzmine.backends.sqlite.rows import MESSAGES, Row
from jazzmine.errors import NotFoundError
from jazzmine.records.messages import Message

__all__ = [
    "ALL_CONVERSATIONS",
    "CONVERSATIONS_BY",
    "MESSAGES_BY",
    "MIN_INT",
    "limit_of",
    "messages_by_ids",
    "newest",
    "newest_readable",
    "page",
]

CONVERSATIONS_BY = {
    owner: sql.Listing("stored_conversations", owner, "last_updated_at", "DESC")
    for owner in ("user_id", "agent_id")
}
# Each has the same owner, "".
ALL_CONVERSATIONS = sql.Listing("stored_conversations", "''", "last_updated_at", "DESC")
MESSAGES_BY = {
    owner: sql.Listing("stored_messages", owner, "timestamp", "ASC")
    for owner in ("conversation_id", "user_id")
}

MIN_INT, _MAX_INT = -(2**63), 2**63 - 1
_IDS_AT_ONCE = 500


def limit_of(count: int | None) -> int:
    """Return a limit or an offset for SQLite; None is no limit."""
    return -1 if count is None else min(count, _MAX_INT)


def page(
    connection: sqlite3.Connection,
    listing: sql.Listing,
    owner: str,
    limit: int | None,
    after: str | None,
) -> list[Row]:
    """Return the rows of a page.

    Raises:
        NotFoundError: the page should start after a record that is not in the listing.
    """
    if after is None:
        return connection.execute(listing.first, [owner, limit_of(limit)]).fetchall()
    # The cursor and the page are of the same time; the caller ends the transaction.
    connection.execute("BEGIN")
    cursor = connection.execute(listing.cursor, [after, owner]).fetchone()
    if cursor is None:
        raise NotFoundError(f"after={after!r} is no record of this listing")
    return connection.execute(listing.next, [owner, *cursor, limit_of(limit)]).fetchall()


def newest(
    connection: sqlite3.Connection,
    conversation_id: str,
    calls: bool,
    limit: int,
    after: str | None,
) -> list[Row]:
    """Return the rows of a page of the messages that a context may hold, newest first.

    Raises:
        NotFoundError: `after` is no message of the conversation.
    """
    if after is None:
        statement = sql.NEWEST_AND_CALLS if calls else sql.NEWEST
        return connection.execute(statement, [conversation_id, limit_of(limit)]).fetchall()
    connection.execute("BEGIN")
    by_conversation = MESSAGES_BY["conversation_id"]
    cursor = connection.execute(by_conversation.cursor, [after, conversation_id]).fetchone()
    if cursor is None:
        raise NotFoundError(f"after={after!r} is no record of this listing")
    statement = sql.OLDER_AND_CALLS if calls else sql.OLDER
    return connection.execute(statement, [conversation_id, *cursor, limit_of(limit)]).fetchall()


def newest_readable(
    connection: sqlite3.Connection, conversation_id: str, limit: int
) -> list[Message] | None:
    """Return the newest unflagged messages, newest first, or None if one of them is unreadable."""
    try:
        row = connection.execute(sql.NEWEST_AS_ARRAY, [conversation_id, limit]).fetchone()
    except sqlite3.DataError:  # together they are too large for one value
        return None
    return MESSAGES.array(row[1], row[0])


def messages_by_ids(connection: sqlite3.Connection, message_ids: Sequence[str]) -> list[Row]:
    """Return the rows of those messages that are stored, in the order of the ids."""
    found: dict[bytes | str, Row] = {}
    is_text = connection.text_factory is str
    if not connection.in_transaction:
        connection.execute("BEGIN")
    ids = iter(dict.fromkeys(message_ids))
    while chunk := list(islice(ids, _IDS_AT_ONCE)):
        # A power of two, so that few statements have to be prepared.
        count = 1 << (len(chunk) - 1).bit_length()
        chunk += chunk[-1:] * (count - len(chunk))
        rows = connection.execute(sql.messages_by_ids(count), chunk).fetchall()
        found.update((row[0], row) for row in rows)
    wanted = (found.get(one if is_text else one.encode()) for one in message_ids)
    return [row for row in wanted if row is not None]
