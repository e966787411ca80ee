"""What a store that is scoped to a user refuses, and how.

A record of another user and one that is not stored are refused with the same text.
"""

from __future__ import annotations

import json

from jazzmine.errors import IntegrityError, ScopeError
from jazzmine.records.rows import Row

__all__ = [
    "NotSeenError",
    "require_own",
    "row_user",
    "taken",
    "unseen_conversation",
    "unseen_message",
]


class NotSeenError(IntegrityError):
    """A write of a scoped store is about a record that its user does not see."""


def unseen_conversation(conversation_id: str) -> NotSeenError:
    """Return the error for a conversation that is not stored, or another user's."""
    return NotSeenError(
        f"conversation {conversation_id!r} is not stored; store the conversation first"
    )


def unseen_message(message_id: str) -> NotSeenError:
    """Return the error for a message that is not stored, or in another user's conversation."""
    return NotSeenError(f"message {message_id!r} is not stored; store the message first")


def taken(kind: str, record_id: str) -> IntegrityError:
    """Return the error for a new record with the id of another user's."""
    return IntegrityError(f"the {kind} {record_id!r} cannot be stored: its id is taken")


def require_own(viewer: str | None, user_id: str | None) -> None:
    """Raise ScopeError if a user is given who is not the one that a store is scoped to."""
    if viewer is not None and user_id is not None and user_id != viewer:
        raise ScopeError("this store is scoped to another user than the one that was given")


def row_user(row: Row) -> str:
    """Return whose the conversation of a row is."""
    body = row[1]
    fields = body if isinstance(body, dict) else json.loads(body)
    return str(fields.get("user_id", ""))
