"""The owner of a record, and the errors of one user's view of a store.

A record of another user and one that is not stored are refused with the same text.
"""

from __future__ import annotations

from typing import Literal

from jazzmine.errors import IntegrityError, ScopeError
from jazzmine.records.rows import Row, body_of

__all__ = ["id_taken", "require_own", "row_owner", "unknown_message"]


def unknown_message(message_id: str) -> IntegrityError:
    """Return the error of a trace whose message is not stored, or not in the user's view."""
    return IntegrityError(f"message {message_id!r} is not stored; store the message first")


def id_taken(kind: str, record_id: str) -> IntegrityError:
    """Return the error for a new record with the id of another user's record."""
    return IntegrityError(f"the {kind} {record_id!r} cannot be stored: its id is taken")


def require_own(own_id: str, user_id: str | None) -> None:
    """Raise `ScopeError` if an argument of a view names another user."""
    if user_id is not None and user_id != own_id:
        raise ScopeError("this store is scoped to another user than the one that was given")


def row_owner(row: Row, field: Literal["user_id", "conversation_id"]) -> str:
    """Return the user or the conversation of a row's record; "" if the row cannot be read."""
    body = body_of(row)
    owner = body.get(field) if isinstance(body, dict) else None
    return owner if isinstance(owner, str) else ""
