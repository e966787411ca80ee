"""The records that one user sees: those of the user's conversations, and no others."""

from __future__ import annotations

import functools
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from jazzmine.backends.sqlite import statements as sql
from jazzmine.records.hook_arguments import Turn
from jazzmine.records.seen import taken, unseen_conversation, unseen_message

__all__ = ["AnyConnection", "View", "query_as", "require_seen", "require_storable"]

T = TypeVar("T")

# In the rest of a statement, these are meant by the names of the tables. A list of messages names a
# user or a conversation, and the newest traces would be looked for among everybody's: the join lets
# them be found by the conversations. An agent and an intent are everybody's, too: of two columns
# with one name the first one counts, and an expression has no index.
_SEEN = """
WITH RECURSIVE stored_conversations AS NOT MATERIALIZED (
    SELECT * FROM main.stored_conversations WHERE user_id = {viewer}
), stored_messages AS NOT MATERIALIZED (
    SELECT * FROM main.stored_messages AS records WHERE EXISTS (
        SELECT 1 FROM main.stored_conversations AS owners
        WHERE owners.id = records.conversation_id AND owners.user_id = {viewer})
), stored_turn_traces AS NOT MATERIALIZED (
    SELECT +records.agent_id AS agent_id, +records.detected_intent AS detected_intent, records.*
    FROM main.stored_conversations AS owners
    JOIN main.stored_turn_traces AS records ON records.conversation_id = owners.id
    WHERE owners.user_id = {viewer}
)"""
# How often a statement names the user.
_VIEWERS = 3
_TAKEN = "SELECT 1 FROM stored_conversations WHERE id = ? AND user_id <> ?"
_WITH = re.compile(r"\s*WITH(?: RECURSIVE)?\b")


@functools.lru_cache(maxsize=256)
def _limited(statement: str, viewer: str) -> str:
    """Return a query of the records that the user of a parameter sees."""
    seen = _SEEN.format(viewer=viewer)
    if begin := _WITH.match(statement):
        return f"{seen}, {statement[begin.end() :]}"
    return f"{seen} {statement}"


class View:
    """A connection for queries of the records that a user sees.

    Args:
        connection: that of the database.
        user_id: the user.
    """

    def __init__(self, connection: sqlite3.Connection, user_id: str) -> None:
        self._connection = connection
        self._user_id = user_id

    def execute(
        self, statement: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> sqlite3.Cursor:
        """Run a query as if there were no other records."""
        if isinstance(parameters, Mapping):
            named = {**parameters, "viewer": self._user_id}
            return self._connection.execute(_limited(statement, ":viewer"), named)
        limited = _limited(statement, "?")
        viewers = [self._user_id] * _VIEWERS
        return self._connection.execute(limited, [*viewers, *parameters])

    def is_taken(self, conversation_id: str) -> bool:
        """Return whether another user's conversation has an id."""
        row = self._connection.execute(_TAKEN, [conversation_id, self._user_id]).fetchone()
        return row is not None


AnyConnection: TypeAlias = sqlite3.Connection | View


def query_as(
    viewer: str, query: Callable[[AnyConnection, int], T], connection: sqlite3.Connection, size: int
) -> T:
    """Return the result of a query of the records that a user sees."""
    return query(View(connection, viewer), size)


def require_seen(view: View, conversations: Sequence[str], messages: Sequence[str]) -> None:
    """Raise NotSeenError unless the view has all of some conversations and messages."""
    for conversation_id in conversations:
        if view.execute(sql.CONVERSATION, [conversation_id]).fetchone() is None:
            raise unseen_conversation(conversation_id)
    for message_id in messages:
        if view.execute(sql.MESSAGE, [message_id]).fetchone() is None:
            raise unseen_message(message_id)


def require_storable(view: View, turn: Turn) -> None:
    """Raise NotSeenError if some records are not for the conversations of a view."""
    conversation, messages, trace = turn
    owners = {message.record.conversation_id for message in messages}
    if conversation is not None:
        given = conversation.record.id
        if view.is_taken(given):
            raise taken("conversation", given)
        owners.discard(given)
    of_trace: list[str] = []
    if trace is not None and trace.record.message_id not in {one.record.id for one in messages}:
        of_trace = [trace.record.message_id]
    require_seen(view, sorted(owners), of_trace)
