"""The commands of the calls that change several documents in MongoDB.

Each function takes the collections of a store first and a session last, and is one attempt in a
transaction, which has no effect if the function raises. On a standalone server the session is None,
and an attempt that ends half-way leaves a part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import time_ns
from typing import NamedTuple, TypeAlias

from bson import encode
from bson.raw_bson import RawBSONDocument
from pymongo import ReplaceOne

from jazzmine._sync.clients.mongodb.types import Collection, Session
from jazzmine.backends.mongodb.documents import (
    TOUCHED,
    Document,
    copied,
    document_of,
    id_of,
    to_rows,
)
from jazzmine.backends.mongodb.indexes import CONVERSATIONS, MESSAGES, TRACES
from jazzmine.backends.mongodb.queries import (
    MESSAGES_OF_CONVERSATION,
    NEWEST_MESSAGES,
    TOUCH,
    TRACES_OF_CONVERSATION,
    Listing,
    among,
    equal,
    since,
)
from jazzmine.errors import ConflictError, IntegrityError, NotFoundError
from jazzmine.records.conversation_log import DeletedCounts, Refusal
from jazzmine.records.hook_arguments import Append, Fork
from jazzmine.records.log import ANY, NOTHING
from jazzmine.records.types import MIN_INT

Collections: TypeAlias = Mapping[str, Collection]
"""The collections of a store, by their names."""


class TurnDocuments(NamedTuple):
    """The documents of a turn."""

    conversations: Sequence[Document]
    messages: Sequence[Document]
    traces: Sequence[Document]


class RefusedError(Exception):
    """An append was refused, so that its transaction is aborted."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__()
        self.refusal = refusal


# Storing


def put_turn(
    stored: Collections, turn: TurnDocuments, known: bool, session: Session | None
) -> None:
    """Store the records of a turn.

    Args:
        stored: see the module.
        turn: the records.
        known: whether a trace's message may have another trace; otherwise that is an error.
        session: see the module.
    """
    conversations, messages, traces = turn
    owners = {message["conversation_id"] for message in messages}
    _require_conversations(stored, owners.difference(map(id_of, conversations)), session)
    require_messages(stored, traces, messages, session)
    now = time_ns()  # with the number it is another document than before, even if equal otherwise
    replaced = [(equal(id=one["id"]), {**one, TOUCHED: now}) for one in conversations]
    _replace(stored[CONVERSATIONS], replaced, session)
    # A query with the conversation does not find an id in another conversation: the upsert fails.
    replaced = [
        (equal(id=one["id"], conversation_id=one["conversation_id"]), one) for one in messages
    ]
    _replace(stored[MESSAGES], replaced, session)
    if known and traces:
        others = among("message_id", [trace["message_id"] for trace in traces])
        others["id"] = {"$nin": [trace["id"] for trace in traces]}
        stored[TRACES].delete_many(others, session=session)
    replaced = [(equal(id=one["id"], message_id=one["message_id"]), one) for one in traces]
    _replace(stored[TRACES], replaced, session)


def _replace(
    collection: Collection,
    documents: Sequence[tuple[Document, Document]],
    session: Session | None,
) -> None:
    """Store documents in place of those that match a query; the server sets new `_id`s."""
    if documents:
        writes = [ReplaceOne(query, document, upsert=True) for query, document in documents]
        # Ordered, because `_id` orders documents with equal times.
        collection.bulk_write(writes, session=session)


def _require_conversations(
    stored: Collections, owners: set[str], session: Session | None
) -> None:
    if not owners:
        return
    query = among("id", list(owners))
    if session is not None:
        # A deletion at the same time conflicts with this transaction.
        stored[CONVERSATIONS].update_many(query, TOUCH, session=session)
    known = stored[CONVERSATIONS].find(query, {"id": 1}, session=session).to_list()
    missing = owners.difference(map(id_of, known))
    if missing:
        raise IntegrityError(
            f"the conversation {min(missing)!r} of a message is not stored;"
            " store the conversation first"
        )


def require_messages(
    stored: Collections,
    traces: Sequence[Document],
    messages: Sequence[Document] = (),
    session: Session | None = None,
) -> None:
    """Raise IntegrityError unless each trace's message is stored, or given, in its conversation."""
    owners = {message["id"]: message["conversation_id"] for message in messages}
    others = {trace["message_id"] for trace in traces}.difference(owners)
    if others:
        fields = {"id": 1, "conversation_id": 1}
        found = stored[MESSAGES].find(among("id", list(others)), fields, session=session)
        owners |= {id_of(one): one.get("conversation_id") for one in found.to_list()}
    for trace in traces:
        message_id, owner = trace["message_id"], trace["conversation_id"]
        if message_id not in owners:
            raise IntegrityError(
                f"trace {trace['id']!r}: its message {message_id!r} is not stored;"
                " store the message first"
            )
        if owners[message_id] != owner:
            raise IntegrityError(
                f"trace {trace['id']!r} names conversation {owner!r},"
                f" but its message {message_id!r} is of another one"
            )


def _insert(
    collection: Collection, documents: Sequence[Document], session: Session | None
) -> None:
    """Insert documents; the server sets their `_id`s, in their order."""
    if documents:
        # The driver adds no `_id` to a raw document.
        raw = [RawBSONDocument(encode(document)) for document in documents]
        collection.insert_many(raw, session=session)


# A conversation as a log


def append(
    stored: Collections,
    given: Append,
    documents: Sequence[Document],
    known: bool,
    session: Session | None,
) -> int:
    """Store messages after all others, and return the least `timestamp` that they may have.

    Args:
        stored: see the module.
        given: the conditions, and the trace.
        documents: the messages.
        known: whether some of the ids may be stored already; otherwise that is an error.
        session: see the module.

    Raises:
        RefusedError: nothing was written.
    """
    own, owned = equal(id=given.conversation_id), equal(conversation_id=given.conversation_id)
    cursor, sort = {"id": 1, "timestamp": 1}, NEWEST_MESSAGES.sort
    newest = last = stored[MESSAGES].find_one(owned, cursor, sort=sort, session=session)
    newest_id = None if newest is None else id_of(newest)
    is_replaced, later = True, list[Document]()
    if given.replace_after is not NOTHING:
        last = None
        if isinstance(given.replace_after, str):
            query = {**owned, **equal(id=given.replace_after)}
            last = stored[MESSAGES].find_one(query, cursor, session=session)
            is_replaced = last is not None
    is_expected = given.expected_last is ANY or given.expected_last == newest_id
    floor = MIN_INT if last is None else int(last["timestamp"])
    latest = max(floor, documents[-1]["timestamp"])
    before: list[Document] = []
    if known or not (is_replaced and is_expected):
        ids = among("id", [message["id"] for message in documents])
        before = stored[MESSAGES].find(ids, session=session).to_list()
    if before or not (is_replaced and is_expected):
        is_known = stored[CONVERSATIONS].find_one(own, {"_id": 1}, session=session)
        refusal = Refusal(is_known is not None, newest_id, to_rows(before), is_replaced)
        raise RefusedError(refusal)
    # Of two appends to one conversation, the server aborts one here.
    raised = {**TOUCH, "$max": {"last_updated_at": latest}}
    conversation = stored[CONVERSATIONS].update_one(own, raised, session=session)
    if not conversation.matched_count:
        raise RefusedError(Refusal(False, newest_id, [], is_replaced))
    if given.replace_after is not NOTHING:
        later = tail(stored, given.conversation_id, last, session)
    messages = [{**one, "timestamp": max(floor, one["timestamp"])} for one in documents]
    _insert(stored[MESSAGES], messages, session)
    remove(stored, later, session)
    if given.trace is not None:  # last, since its id may be that of a trace that is replaced
        _insert(stored[TRACES], [document_of(given.trace)], session)
    return floor


def tail(
    stored: Collections, conversation_id: str, last: Document | None, session: Session | None
) -> list[Document]:
    """Return the ids of the messages after one of a conversation, or of all."""
    query = MESSAGES_OF_CONVERSATION.of(conversation_id, last)
    return stored[MESSAGES].find(query, {"id": 1}, session=session).to_list()


def remove(
    stored: Collections, messages: Sequence[Document], session: Session | None
) -> DeletedCounts:
    """Delete messages, each given by its id and its `_id`, with their traces; return how many."""
    if not messages:
        return DeletedCounts()
    of_messages = among("message_id", list(map(id_of, messages)))
    traces = stored[TRACES].delete_many(of_messages, session=session)
    chosen = {"_id": {"$in": [document["_id"] for document in messages]}}
    result = stored[MESSAGES].delete_many(chosen, session=session)
    return DeletedCounts(0, result.deleted_count, traces.deleted_count)


def copy(
    stored: Collections, fork: Fork, conversation: Document, session: Session | None
) -> dict[str, str]:
    """Store a conversation with copies of messages and traces; return the new ids by the old."""
    source, until, _, salt = fork
    new_id, ids, copies = conversation["id"], dict[str, str](), list[Document]()
    conversations, fields = stored[CONVERSATIONS], {"_id": 1}
    if conversations.find_one(equal(id=source), fields, session=session) is None:
        raise NotFoundError(f"conversation {source!r} is not stored")
    for message in _all(stored, MESSAGES_OF_CONVERSATION, source, session):
        copies.append(copied(message, salt, conversation_id=new_id))
        ids[id_of(message)] = copies[-1]["id"]
        if id_of(message) == until:
            break
    if until is not None and until not in ids:
        raise NotFoundError(f"message {until!r} is no message of this conversation")
    if conversations.find_one(equal(id=new_id), fields, session=session) is not None:
        raise ConflictError(f"conversation {new_id!r} is stored already; fork to a new one")
    _insert(conversations, [conversation], session)
    _insert(stored[MESSAGES], copies, session)
    traces = [
        copied(
            trace,
            salt,
            conversation_id=new_id,
            message_id=ids[trace["message_id"]],
            copied_from=id_of(trace),
        )
        for trace in _all(stored, TRACES_OF_CONVERSATION, source, session)
        if trace["message_id"] in ids
    ]
    _insert(stored[TRACES], traces, session)
    return ids


def _all(
    stored: Collections, listing: Listing, owner: str, session: Session | None
) -> list[Document]:
    collection, query = stored[listing.collection], listing.of(owner)
    return collection.find(query, sort=listing.sort, session=session).to_list()


# Deleting


def erase_conversation(
    stored: Collections,
    conversation_id: str,
    own: Document,
    limit: int,
    before: int | None,
    session: Session | None,
) -> DeletedCounts:
    """Delete the oldest messages of a conversation, and the conversation with the last.

    Args:
        stored: see the module.
        conversation_id: which conversation.
        own: the query for it, with what must hold for it; otherwise nothing is deleted.
        limit: how many messages at most; 0 is no limit.
        before: nothing is deleted if it has a message of this time or later, in ms; or None.
        session: see the module.
    """
    owned = equal(conversation_id=conversation_id)
    if before is not None:
        used = since(conversation_id, before)
        if stored[MESSAGES].find_one(used, {"_id": 1}, session=session) is not None:
            return DeletedCounts()
    if limit:
        sort = MESSAGES_OF_CONVERSATION.sort
        cursor = stored[MESSAGES].find(owned, {"id": 1}, sort=sort, limit=limit, session=session)
        oldest = cursor.to_list()
        if len(oldest) == limit:
            touched = stored[CONVERSATIONS].update_one(own, TOUCH, session=session)
            is_stored = touched.matched_count
            return remove(stored, oldest, session) if is_stored else DeletedCounts()
    deleted = stored[CONVERSATIONS].delete_one(own, session=session)
    if not deleted.deleted_count:
        return DeletedCounts()
    traces = stored[TRACES].delete_many(owned, session=session)
    messages = stored[MESSAGES].delete_many(owned, session=session)
    return DeletedCounts(1, messages.deleted_count, traces.deleted_count)
