"""The arguments of the hooks of a message store's back end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

from jazzmine.records.base import FlaggedShown, Snapshot
from jazzmine.records.log import ANY, NOTHING, AnyMessage, Nothing
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter

# The field of a record that an id of a hook is compared with.
ConversationOwner: TypeAlias = Literal["user_id", "agent_id"]
MessageOwner: TypeAlias = Literal["conversation_id", "user_id"]


class Turn(NamedTuple):
    """Records to store, at least one; no id, and no trace's message, is there twice."""

    conversations: Sequence[Snapshot[Conversation]] = ()
    messages: Sequence[Snapshot[Message]] = ()
    traces: Sequence[Snapshot[TurnTrace]] = ()


class Append(NamedTuple):
    """Messages to append.

    Attributes:
        conversation_id: the conversation of all messages.
        messages: at least one, each id once, with ascending timestamps.
        expected_last: the id of the newest message before the call, None if there must be none, or
            `ANY`.
        trace: a trace of one of the messages, or None.
        replace_after: a message's id, None to delete all messages, or `NOTHING` to delete none.
    """

    conversation_id: str
    messages: Sequence[Snapshot[Message]]
    expected_last: str | AnyMessage | None = ANY
    trace: Snapshot[TurnTrace] | None = None
    replace_after: str | Nothing | None = NOTHING


class Fork(NamedTuple):
    """A copy of a conversation, until a message or of all; the new ids are made of the salt."""

    conversation_id: str
    until: str | None
    copy: Snapshot[Conversation]
    salt: UUID


class ConversationPage(NamedTuple):
    """A page of conversations.

    Attributes:
        by: the field that must be equal to `owner`; None lists all conversations.
        owner: an id; empty if all are listed.
        where: keys and values that `metadata` must contain, with equal JSON values (true is not 1,
            1 is 1.0, and null is not a missing key). Often empty.
        limit: the largest number of records; None is no limit.
        after: the id of the last record of the page before, which need not match `where`; None is
            the first page.
        user_id: only this user's conversations; None adds no condition.
    """

    by: ConversationOwner | None
    owner: str
    where: Mapping[str, Any]
    limit: int | None
    after: str | None
    user_id: str | None = None


class MessagePage(NamedTuple):
    """A page of a conversation's or a user's messages; see `ConversationPage`."""

    by: MessageOwner
    owner: str
    limit: int | None
    after: str | None


class NewestPage(NamedTuple):
    """A page of a conversation's messages, newest first.

    Attributes:
        conversation_id: the conversation.
        flagged: the flagged messages in the page, since a context must not have the answers of
            tools without their calls.
        limit: the largest number of messages; at least 1.
        after: the id of any message of the conversation; the page begins after it. None is the
            first page.
    """

    conversation_id: str
    flagged: FlaggedShown
    limit: int
    after: str | None


class TracePage(NamedTuple):
    """A page of the traces that match a filter, after any stored trace or some that are skipped."""

    where: TraceFilter
    limit: int
    after: str | None = None
    offset: int = 0
