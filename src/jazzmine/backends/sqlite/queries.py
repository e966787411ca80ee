"""The queries for lists of messages and conversations."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence

from jazzmine.backends.sqlite import statements as sql
from jazzmine.errors import NotFoundError
from jazzmine.records.base import FlaggedShown
from jazzmine.records.rows import Row
from jazzmine.records.types import MAX_INT

__all__ = [
    "CONVERSATIONS_BY",
    "MESSAGES_BY",
    "NEWEST",
    "TooLarge",
    "count_messages",
    "limit_of",
    "messages_by_ids",
    "page",
    "row",
    "rows",
    "within",
]

# The owner of all conversations is the same for each, "".
CONVERSATIONS_BY = {
    (owner, with_condition, with_user): sql.Listing(
        "stored_conversations",
        owner or "''",
        "last_updated_at",
        "DESC",
        f"{'jazzmine_contains(body, ?)' if with_condition else 'true'}"
        f"{' AND user_id = ?' if with_user else ''}",
    )
    for owner in ("user_id", "agent_id", None)
    for with_condition in (False, True)
    for with_user in (False, True)
}
MESSAGES_BY = {
    owner: sql.Listing("stored_messages", owner, "timestamp", "ASC")
    for owner in ("conversation_id", "user_id")
}

# A conversation's newest messages, by which flagged ones are shown.
_SHOWN: dict[FlaggedShown, str] = {
    "none": "NOT is_flagged",
    "calls": "(NOT is_flagged OR is_call)",
    "all": "true",
}
NEWEST = {
    flagged: sql.Listing("stored_messages", "conversation_id", "timestamp", "DESC", condition)
    for flagged, condition in _SHOWN.items()
}

# SQLite takes 32,766 parameters.
_IDS_AT_ONCE = 30_000


class TooLarge(Exception):
    """A read has met so much data that another thread should read it."""


def row(statement: str, key: str, connection: sqlite3.Connection, size: int) -> Row | None:
    """Return the row of a key."""
    found: Row | None = connection.execute(statement, [key]).fetchone()
    return found


def within(
    query: Callable[..., Iterable[Row]],
    arguments: Sequence[object],
    connection: sqlite3.Connection,
    size: int,
) -> list[Row]:
    """Return the rows of a query, whose bodies have up to `size` bytes together.

    Raises:
        TooLarge: they have more.
    """
    found: list[Row] = []
    source = query(connection, *arguments)
    for row in source:
        size -= len(row[1])
        if size < 0:
            if isinstance(source, sqlite3.Cursor):
                source.close()  # otherwise the next call would read in the transaction of this one
            raise TooLarge
        found.append(row)
    return found


def limit_of(count: int | None) -> int:
    """Return a limit or an offset for SQLite; None is no limit."""
    return -1 if count is None else min(count, MAX_INT)


def page(
    connection: sqlite3.Connection,
    listing: sql.Listing,
    parameters: Sequence[object],
    limit: int | None,
    after: str | None,
) -> Iterable[Row]:
    """Return the rows of a page.

    Args:
        connection: where they are read.
        listing: the statements.
        parameters: those of the listing's condition.
        limit: how many at most; None is no limit.
        after: the id of the last record of the page before, or None.

    Raises:
        NotFoundError: the page should start after a record that is not in the listing.
    """
    if after is None:
        return connection.execute(listing.first, [*parameters, limit_of(limit)])
    cursor = connection.execute(listing.cursor, [after, parameters[0]]).fetchone()
    if cursor is None:
        raise NotFoundError(f"after={after!r} is no record of this listing")
    return connection.execute(listing.next, [*parameters, *cursor, limit_of(limit)])


def rows(
    connection: sqlite3.Connection, statement: str, parameters: Sequence[object]
) -> Iterable[Row]:
    """Return the rows of a statement."""
    return connection.execute(statement, parameters)


def messages_by_ids(connection: sqlite3.Connection, message_ids: Sequence[str]) -> list[Row]:
    """Return the rows of those messages that are stored, in the order of the ids."""
    found: dict[str, Row] = {}
    for first in range(0, len(message_ids), _IDS_AT_ONCE):
        ids = list(dict.fromkeys(message_ids[first : first + _IDS_AT_ONCE]))
        # A power of two, so that few statements have to be prepared.
        count = min(1 << (len(ids) - 1).bit_length(), _IDS_AT_ONCE)
        ids += ids[-1:] * (count - len(ids))
        for row in connection.execute(sql.messages_by_ids(count), ids):
            found[row[0] if isinstance(row[0], str) else row[0].decode()] = row
    wanted = map(found.get, message_ids)
    return [row for row in wanted if row is not None]


def count_messages(
    connection: sqlite3.Connection, conversation_ids: Sequence[str]
) -> dict[str, int]:
    """Return how many messages some conversations have."""
    return {
        conversation_id: connection.execute(sql.MESSAGE_COUNT, [conversation_id]).fetchone()[0]
        for conversation_id in conversation_ids
    }
