"""Whose the records of a message store are: what one user's view asks before each call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from functools import wraps
from inspect import unwrap
from typing import Any, TypeVar, cast

from jazzmine._sync.message_store.store import MessageStore
from jazzmine._sync.operation import composed
from jazzmine._sync.view import ConversationView
from jazzmine.errors import NotFoundError
from jazzmine.records.arguments import require_id
from jazzmine.records.base import RecordKind
from jazzmine.records.conversation_log import unknown_conversation
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.owners import id_taken, require_own, row_owner, unknown_message
from jazzmine.records.rows import Row
from jazzmine.records.traces import TurnTrace

__all__ = ["OwnedRecords", "about"]

AnyMethod = TypeVar("AnyMethod", bound=Callable[..., Any])


class OwnedRecords(ConversationView[MessageStore], MessageStore):
    """Knows which conversations of a store are a user's; the base class of a view."""

    # Whose a record is. Rows are looked at as they are stored: what is another user's is not
    # decrypted.

    def _owner(self, conversation_id: str) -> str | None:
        """Return whose a conversation is; None if it is not stored."""
        row = self._store.backend.get_conversation(conversation_id)
        return None if row is None else row_owner(row, "user_id")

    def _require_free(self, conversation: Conversation) -> None:
        """Raise an error if a conversation, or the one with its id, is another user's."""
        require_own(self._user_id, conversation.user_id)
        if conversation.id not in self._known:
            owner = self._owner(conversation.id)
            if owner not in (None, self._user_id):
                raise id_taken("conversation", conversation.id)

    def _sees(self, kind: RecordKind, record_id: str) -> bool:
        """Return whether a message or a trace is in a conversation of the user."""
        backend = self._store.backend
        if kind == "messages":
            row = backend.get_message(record_id)
        else:
            row = backend.get_trace("id", record_id)
        return row is not None and bool(self._seen([row]))

    def _seen(self, rows: Sequence[Row]) -> list[Row]:
        """Return those of some messages or traces that are in the user's conversations."""
        owners = [row_owner(row, "conversation_id") for row in rows]
        own = {owner: self._has(owner) for owner in dict.fromkeys(owners) if owner}
        return [row for row, owner in zip(rows, owners, strict=True) if own.get(owner)]

    def _require_after(self, kind: RecordKind, after: str | None) -> None:
        """Raise `NotFoundError` unless a page begins after a record that the user sees."""
        if after is not None and not self._sees(kind, require_id("after", after)):
            raise NotFoundError(f"after={after!r} is no record of this listing")

    def _require_within(
        self, messages: Sequence[Message], traces: Sequence[TurnTrace], new: Collection[str]
    ) -> None:
        """Raise `IntegrityError` unless records are for the user's or new conversations."""
        owners = {message.conversation_id for message in messages}
        for owner in sorted(owners.union(trace.conversation_id for trace in traces)):
            if owner not in new and not self._has(owner):
                raise unknown_conversation(owner)
        for trace in traces:
            is_new = any(message.id == trace.message_id for message in messages)
            if not is_new and not self._sees("messages", trace.message_id):
                raise unknown_message(trace.message_id)


_KINDS: Mapping[str, RecordKind] = {"message_id": "messages", "trace_id": "traces"}


def about(method: AnyMethod, *default: Any) -> AnyMethod:
    """Return the method of a view for a method whose first argument is the id of a record.

    The default is the result for a record that the user does not see, and has nothing that a page
    could begin after; without it, the method raises `NotFoundError`.
    """
    argument = unwrap(method).__code__.co_varnames[1]
    kind = _KINDS.get(argument)

    @composed
    @wraps(method)
    def call(self: OwnedRecords, *args: Any, **options: Any) -> Any:
        record_id = require_id(argument, args[0] if args else options.get(argument))
        if (self._sees(kind, record_id) if kind else self._has(record_id)):
            return getattr(self._store, method.__name__)(*args, **options)
        if not default or options.get("after") is not None:
            raise NotFoundError(f"{record_id!r} is not stored, or nothing is at `after`")
        return copy(default[0])

    return cast("AnyMethod", call)
