"""Build queries. Each value comes after an operator, so that no value can be an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jazzmine.backends.mongodb.documents import TOUCHED, Document
from jazzmine.backends.mongodb.indexes import CONVERSATIONS, MESSAGES, TRACES
from jazzmine.records.base import FlaggedShown
from jazzmine.records.context_window import CALLERS

_CALLERS = sorted(role.value for role in CALLERS)


def equal(**ids: str) -> Document:
    """Build the query for the documents that have these ids."""
    return {name: {"$eq": value} for name, value in ids.items()}


def among(field: str, values: Sequence[str]) -> Document:
    """Build the query for the documents that have one of these ids."""
    return {field: {"$in": list(values)}}


def owned_by(user_id: str | None) -> Document:
    """Build the query for the documents of a user; all documents for None."""
    return {} if user_id is None else equal(user_id=user_id)


_SHOWN: dict[FlaggedShown, Document] = {
    "none": {"is_flagged": {"$ne": True}},
    "calls": {"$nor": [{"is_flagged": True, "role": {"$nin": _CALLERS}}]},
    "all": {},
}


def visible(conversation_id: str, flagged: FlaggedShown) -> Document:
    """Build the query for a conversation's messages.

    Args:
        conversation_id: the conversation.
        flagged: the flagged messages that are found, too.
    """
    return {**equal(conversation_id=conversation_id), **_SHOWN[flagged]}


@dataclass(frozen=True)
class Listing:
    """Documents of a collection by a field, then by the order in which they were first stored."""

    collection: str
    field: str
    direction: int
    owner: str = ""

    @property
    def sort(self) -> list[tuple[str, int]]:
        """The sort order, in the form of the driver."""
        return [(self.field, self.direction), ("_id", self.direction)]

    @property
    def projection(self) -> dict[str, int]:
        """The projection to the fields of a cursor."""
        return {self.field: 1}

    def of(self, owner: str, last: Document | None = None) -> Document:
        """Build the query for the documents of an owner, after a cursor if there is one."""
        query = equal(**{self.owner: owner}) if self.owner else {}
        return query if last is None else self.after(query, last)

    def after(self, query: Document, last: Document) -> Document:
        """Build the query for the documents of a query that come after a cursor."""
        later = "$gt" if self.direction > 0 else "$lt"
        at = last.get(self.field)
        # The first condition limits the part of the index to scan, the second is exact.
        bounds = {**query.get(self.field, {}), f"{later}e": at}
        exact = [
            {self.field: {later: at}},
            {self.field: {"$eq": at}, "_id": {later: last["_id"]}},
        ]
        return {**query, self.field: bounds, "$or": exact}


def _by(owner: str, listing: Listing) -> Listing:
    """Return the part of a listing that belongs to a user, an agent or a conversation."""
    return replace(listing, owner=f"{owner}_id")


_ALL_CONVERSATIONS = Listing(CONVERSATIONS, "last_updated_at", -1)
OLDEST_CONVERSATIONS = replace(_ALL_CONVERSATIONS, direction=1)
_ALL_MESSAGES = Listing(MESSAGES, "timestamp", 1)
MESSAGES_OF_CONVERSATION = _by("conversation", _ALL_MESSAGES)
NEWEST_MESSAGES = replace(MESSAGES_OF_CONVERSATION, direction=-1)
TRACES_OF_CONVERSATION = Listing(TRACES, "turn_number", 1, "conversation_id")
TRACES_FOUND = Listing(TRACES, "started_at_ms", -1)

# The listings of an owner, by the field with the owner's id.
CONVERSATIONS_BY: dict[str | None, Listing] = {
    None: _ALL_CONVERSATIONS,
    "user_id": _by("user", _ALL_CONVERSATIONS),
    "agent_id": _by("agent", _ALL_CONVERSATIONS),
}
MESSAGES_BY: dict[str, Listing] = {
    "conversation_id": MESSAGES_OF_CONVERSATION,
    "user_id": _by("user", _ALL_MESSAGES),
}


#: The update that changes a document, so that transactions conflict.
TOUCH: Document = {"$inc": {TOUCHED: 1}}


def older_than(before: int) -> Document:
    """Build the query for the conversations that were last updated before a time, in ms."""
    return {"last_updated_at": {"$lt": before}}


def since(conversation_id: str, time: int) -> Document:
    """Build the query for a conversation's messages of a time or later, in ms."""
    return {**equal(conversation_id=conversation_id), "timestamp": {"$gte": time}}
