"""Documents, queries and updates of a conversation as a log.

A conversation's document has a field beside those of its record, `log_lock`. In a transaction, each
change of the log gives it a new value: of two transactions that change one document, the server
aborts one, and an update without effect would be no change. On a standalone server it is a lease:

- `token`: of the store that has it,
- `until`: when it expires, in ms by the server's clock,
- `pending`: the ids of the messages that are being appended,
- `fork`: true while the conversation is being filled with copies.

https://www.mongodb.com/docs/manual/core/transactions-production-consideration/
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from jazzmine.backends.mongodb.documents import LOG_LOCK, Document
from jazzmine.backends.mongodb.queries import Listing, equal
from jazzmine.records.conversation_log import Newest, forked_id
from jazzmine.records.repair import UNKNOWN_ID

__all__ = [
    "OLDEST_CONVERSATIONS",
    "appended",
    "changed",
    "chunks",
    "copied_message",
    "copied_trace",
    "in_conversation",
    "keeping_lock",
    "lock",
    "lockable",
    "new_copy",
    "newest_of",
    "older_than",
    "since",
    "unlock",
]

OLDEST_CONVERSATIONS = Listing("last_updated_at", 1)

# The server's clock, in ms. https://www.mongodb.com/docs/manual/reference/operator/aggregation/toLong/
_NOW = {"$toLong": "$$NOW"}


# What is read


def newest_of(document: Document) -> Newest:
    """Return the id and the time of the newest message, which may be another program's."""
    timestamp = document.get("timestamp")
    if not isinstance(timestamp, (int, float)) or not math.isfinite(timestamp):
        timestamp = -math.inf
    at = max(timestamp, -(2**63))
    return Newest(document.get("id") or UNKNOWN_ID, min(math.ceil(at), 2**63 - 1))


def in_conversation(conversation_id: str, places: Sequence[Any]) -> Document:
    """Build the query for some messages of a conversation, by `_id`."""
    return {**equal(conversation_id=conversation_id), "_id": {"$in": list(places)}}


def older_than(before: int) -> Document:
    """Build the query for the conversations that were last updated before a time, in ms."""
    return {"last_updated_at": {"$lt": before}}


def since(conversation_id: str, time: int) -> Document:
    """Build the query for a conversation's messages of a time or later, in ms."""
    return {**equal(conversation_id=conversation_id), "timestamp": {"$gte": time}}


# What is changed in a transaction


def changed(change: Any) -> Document:
    """Build the update of a conversation whose log is changed.

    Args:
        change: a value that no other change has.
    """
    return {"$set": {LOG_LOCK: {"token": change}}}


def appended(change: Any, latest: int, ids: Sequence[str]) -> Document:
    """Build the update of a conversation to which messages are appended.

    Args:
        change: a value that no other change has; None on a standalone server.
        latest: the `timestamp` of the last message.
        ids: those of the messages.
    """
    raised = {"$max": {"last_updated_at": latest}}
    if change is None:
        return {"$set": {f"{LOG_LOCK}.pending": list(ids)}, **raised}
    return {**changed(change), **raised}


# The lease on a standalone server


def lockable(conversation_id: str, token: Any) -> Document:
    """Build the query for a conversation if no other store has its lease."""
    expired = {"$expr": {"$lt": [f"${LOG_LOCK}.until", _NOW]}}
    return {**equal(id=conversation_id), "$or": [{f"{LOG_LOCK}.token": token}, expired]}


def lock(token: Any, seconds: float) -> list[Document]:
    """Build the update that takes the lease; `pending` and `fork` stay as they are."""
    return [{"$set": {LOG_LOCK: _lease(token, seconds)}}]


def _lease(token: Any, seconds: float) -> Document:
    return {"token": token, "until": {"$add": [_NOW, math.ceil(seconds * 1000)]}}


def unlock() -> Document:
    """Build the update that releases the lease."""
    return {"$unset": {LOG_LOCK: True}}


def new_copy(document: Document, token: Any, seconds: float) -> list[Document]:
    """Build the update that stores a conversation which is being filled, with its lease."""
    lease = {**_lease(token, seconds), "fork": True}
    return [{"$replaceWith": {"$mergeObjects": [{"$literal": document}, {LOG_LOCK: lease}]}}]


def keeping_lock(document: Document) -> list[Document]:
    """Build the update that replaces a conversation, except for the lease that it may have."""
    kept = {LOG_LOCK: f"${LOG_LOCK}"}
    return [{"$replaceWith": {"$mergeObjects": [{"$literal": document}, kept]}}]


# Copies


def copied_message(document: Document, owner: str, salt: UUID) -> tuple[str, Document]:
    """Return a message's id, and its copy for another conversation."""
    source_id = document.get("id") or UNKNOWN_ID
    return source_id, _moved(document, id=forked_id(salt, source_id), conversation_id=owner)


def copied_trace(document: Document, owner: str, salt: UUID, ids: dict[str, str]) -> Document:
    """Return the copy of a trace for the copy of its message."""
    source_id = document.get("id") or UNKNOWN_ID
    return _moved(
        document,
        id=forked_id(salt, source_id),
        message_id=ids[document.get("message_id") or UNKNOWN_ID],
        conversation_id=owner,
    )


def _moved(document: Document, **fields: str) -> Document:
    return {name: value for name, value in {**document, **fields}.items() if name != "_id"}


def chunks(values: Sequence[Any], size: int) -> Collection[Sequence[Any]]:
    """Return the values in parts of at most `size`."""
    return [values[begin : begin + size] for begin in range(0, len(values), size)]
