"""The commands of each write to MongoDB, in their order.

Each function is one attempt of a call. With a session its commands are in a transaction, whose
first one writes to a document that all others which must not run at the same time write to, too.
Without one, on a standalone server, a conversation is written before its messages and a message
before its trace, and they are deleted in reverse order; so if an attempt ends half-way, no trace is
stored without its message, and repeating the call completes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import time_ns
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from bson import encode
from bson.raw_bson import RawBSONDocument
from pymongo import ReplaceOne, UpdateOne
from pymongo.errors import BulkWriteError

from jazzmine._sync.clients.mongodb.types import Collection, Session
from jazzmine.backends.mongodb.documents import (
    TOUCHED,
    Document,
    copied_message,
    copied_trace,
    id_of,
    time_of,
    to_rows,
)
from jazzmine.backends.mongodb.errors import lacks_guard
from jazzmine.backends.mongodb.indexes import CONVERSATIONS, MESSAGES, TRACES
from jazzmine.backends.mongodb.queries import (
    MESSAGES_OF_CONVERSATION,
    NEWEST_MESSAGES,
    REQUIRE,
    RETIRE,
    TOUCH,
    among,
    elsewhere,
    equal,
    guard,
    is_retired,
    other_traces,
    seen,
)
from jazzmine.errors import ConflictError, IntegrityError, NotFoundError
from jazzmine.records.conversation_log import DeletedCounts, Refusal
from jazzmine.records.hook_arguments import Fork
from jazzmine.records.log import ANY, NOTHING, AnyMessage, Nothing
from jazzmine.records.seen import unseen_conversation, unseen_message
from jazzmine.records.types import MIN_INT

__all__ = [
    "AppendDocuments",
    "Collections",
    "RefusedError",
    "TurnDocuments",
    "append",
    "copy",
    "erase_conversation",
    "put_alone",
    "put_turn",
    "remove",
    "retire",
    "tail",
]

_AT_ONCE = 10_000
_COPIED_AT_ONCE = 200


Collections: TypeAlias = Mapping[str, Collection]
"""The collections of a store, by their names."""


class TurnDocuments(NamedTuple):
    """The documents of a turn, the ids of its messages' conversations, and for which viewer."""

    conversation: Document | None
    messages: Sequence[Document]
    trace: Document | None
    owners: set[str]
    viewer: str | None


class AppendDocuments(NamedTuple):
    """What an append stores, as the hook gets it, and for which viewer."""

    conversation_id: str
    messages: Sequence[Document]
    expected_last: str | AnyMessage | None
    trace: Document | None
    replace_after: str | Nothing | None
    viewer: str | None


class RefusedError(Exception):
    """An append was refused, so that its transaction is aborted."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__()
        self.refusal = refusal


# Storing


def put_alone(
    stored: Collections,
    session: Session | None,
    turn: TurnDocuments,
    guards: Mapping[str, Document],
) -> bool:
    """Store a conversation, or a message of a conversation with a guard, in one command.

    Args:
        guards: those that `put_turn` returned.

    Returns:
        False, and nothing is stored, if the turn holds more, or if there is no guard (any more).
    """
    conversation, messages, trace, _, viewer = turn
    if trace is not None or (len(messages) != 1 if conversation is None else messages):
        return False
    if conversation is not None:
        own = {**equal(id=conversation["id"]), **seen(viewer)}
        stored[CONVERSATIONS].replace_one(own, conversation, True, session=session)
        return True
    guard = guards.get(messages[0]["conversation_id"])
    if guard is None:
        return False
    check = UpdateOne(guard, REQUIRE, upsert=True)
    try:
        stored[MESSAGES].bulk_write([check, _replacement(messages[0])], session=session)
    except BulkWriteError as error:
        if lacks_guard(error):
            return False
        raise
    return True


def _replacement(message: Document) -> ReplaceOne[Document]:
    # If the id is stored in another conversation, none matches, and the insertion fails.
    query = equal(id=message["id"], conversation_id=message["conversation_id"])
    return ReplaceOne(query, message, upsert=True)


def put_turn(
    stored: Collections, session: Session | None, turn: TurnDocuments, replaces: bool
) -> dict[str, Document]:
    """Store the records of a turn.

    Args:
        replaces: whether the trace's message may have another trace; otherwise that is an error.

    Returns:
        A guard for `put_alone` for each conversation that has one of the messages.
    """
    own = "" if turn.conversation is None else turn.conversation["id"]
    _require_conversations(stored, session, turn.owners - {own}, turn.viewer)
    if session is None:
        # Without a transaction, nothing must be refused after something was stored.
        _require_unmoved(stored, turn)
    if turn.trace is not None:
        _require_message(stored, session, turn)
    if turn.conversation is not None:
        # With the number it is another document than before, even if the record is the same.
        touched = {**turn.conversation, TOUCHED: time_ns()}
        query = {**equal(id=own), **seen(turn.viewer)}
        stored[CONVERSATIONS].replace_one(query, touched, True, session=session)
    guards: dict[str, Document] = {}
    if turn.messages:
        replacements = list(map(_replacement, turn.messages))
        # Ordered, because `_id` orders messages with equal timestamps.
        result = stored[MESSAGES].bulk_write(replacements, session=session)
        for index, place in (result.upserted_ids or {}).items():
            message = turn.messages[index]
            guards[message["conversation_id"]] = guard(place, message["id"])
        if not guards:
            query = equal(id=turn.messages[-1]["id"])
            last = stored[MESSAGES].find_one(query, {"id": 1}, session=session)
            if last is not None:
                guards[turn.messages[-1]["conversation_id"]] = guard(last["_id"], id_of(last))
    if turn.trace is not None:
        if replaces or session is None:
            stored[TRACES].delete_many(other_traces(turn.trace), session=session)
        query = equal(id=turn.trace["id"], message_id=turn.trace["message_id"])
        stored[TRACES].replace_one(query, turn.trace, True, session=session)
    return guards


def _require_conversations(
    stored: Collections, session: Session | None, owners: set[str], viewer: str | None
) -> None:
    """Write to the conversations of messages; raise IntegrityError if one is not stored."""
    if not owners:
        return
    query = {**among("id", list(owners)), **seen(viewer)}
    touched = stored[CONVERSATIONS].update_many(query, TOUCH, session=session)
    if touched.matched_count >= len(owners):
        return
    known = stored[CONVERSATIONS].find(query, {"id": 1}, session=session).to_list()
    missing = owners.difference(map(id_of, known))
    if missing:
        if viewer is not None:
            raise unseen_conversation(min(missing))
        raise IntegrityError(
            f"the conversation {min(missing)!r} of a message is not stored;"
            " store the conversation first"
        )


def _require_unmoved(stored: Collections, turn: TurnDocuments) -> None:
    """Raise IntegrityError if a standalone server would refuse a record after others."""
    for begin in range(0, len(turn.messages), _AT_ONCE):
        others = elsewhere(turn.messages[begin : begin + _AT_ONCE])
        moved = stored[MESSAGES].find_one(others, {"id": 1})
        if moved is not None:
            raise IntegrityError(f"message {id_of(moved)!r} is stored in another conversation")
    if turn.trace is not None:
        trace = turn.trace
        moved = stored[TRACES].find_one(
            {**equal(id=trace["id"]), "message_id": {"$ne": trace["message_id"]}}, {"_id": 1}
        )
        if moved is not None:
            raise IntegrityError(f"trace {trace['id']!r} belongs to another message")


def _require_message(
    stored: Collections, session: Session | None, turn: TurnDocuments
) -> None:
    """Raise IntegrityError unless a trace's message is stored, or in the turn, and agrees."""
    trace = turn.trace
    assert trace is not None
    message_id, owner = trace["message_id"], trace["conversation_id"]
    for message in turn.messages:
        if message["id"] == message_id:
            if message["conversation_id"] != owner:
                raise _disagreement(trace)
            return
    query = equal(id=message_id, conversation_id=owner)
    touched = stored[MESSAGES].update_one(query, TOUCH, session=session)
    if not touched.matched_count:
        if turn.viewer is not None:
            raise unseen_message(message_id)  # even if another user's message has the id
        query = equal(id=message_id)
        if stored[MESSAGES].find_one(query, {"_id": 1}, session=session) is not None:
            raise _disagreement(trace)
        raise IntegrityError(
            f"trace {trace['id']!r}: its message {message_id!r} is not stored;"
            " store the message first"
        )


def _disagreement(trace: Document) -> IntegrityError:
    return IntegrityError(
        f"trace {trace['id']!r} names conversation {trace['conversation_id']!r},"
        f" but its message {trace['message_id']!r} is of another one"
    )


def _insert(
    collection: Collection, session: Session | None, documents: Sequence[Document]
) -> None:
    """Insert documents; the server sets their `_id`s, in their order."""
    if documents:
        # The driver adds no `_id` to a raw document.
        raw = [RawBSONDocument(encode(document)) for document in documents]
        collection.insert_many(raw, session=session)


# A conversation as a log


def append(
    stored: Collections, session: Session | None, given: AppendDocuments, looks_up: bool
) -> int:
    """Store messages after all others, and return the least `timestamp` that they may have.

    Args:
        looks_up: whether some of the ids may be stored already; otherwise that is an error.

    Raises:
        RefusedError: nothing was written.
    """
    own = {**equal(id=given.conversation_id), **seen(given.viewer)}
    owned = equal(conversation_id=given.conversation_id)
    latest = given.messages[-1]["timestamp"]
    looks_up = looks_up or session is None or given.replace_after is not NOTHING
    if session is None:
        is_known = stored[CONVERSATIONS].find_one(own, {"_id": 1}) is not None
    else:
        # First, so that a call that has to wait for another one learns of it at once.
        raised = stored[CONVERSATIONS].update_one(own, _raise(latest), session=session)
        is_known = bool(raised.matched_count)
    if not is_known and given.viewer is not None:
        raise unseen_conversation(given.conversation_id)
    place = {"id": 1, "timestamp": 1}
    sort = NEWEST_MESSAGES.sort
    newest = last = stored[MESSAGES].find_one(owned, place, sort=sort, session=session)
    if given.replace_after is not NOTHING:
        last = None
        if isinstance(given.replace_after, str):
            query = {**owned, **equal(id=given.replace_after)}
            last = stored[MESSAGES].find_one(query, place, session=session)
    is_replaced = last is not None or not isinstance(given.replace_after, str)
    newest_id = None if newest is None else id_of(newest)
    is_expected = given.expected_last is ANY or given.expected_last == newest_id
    ids = among("id", [message["id"] for message in given.messages])
    before: list[Document] = []
    if looks_up or not (is_known and is_replaced and is_expected):
        before = stored[MESSAGES].find(ids, session=session).to_list()
    if before or not (is_known and is_replaced and is_expected):
        if session is None and before:
            _complete(stored, given, before, last)
            before = stored[MESSAGES].find(ids).to_list()
        raise RefusedError(Refusal(is_known, newest_id, to_rows(before), is_replaced))
    floor = MIN_INT if last is None else time_of(last)
    replaced: list[Document] = []
    if given.replace_after is not NOTHING:
        replaced = tail(stored, session, given.conversation_id, last)
    messages = [_not_before(floor, message) for message in given.messages]
    _insert(stored[MESSAGES], session, messages)
    if session is None or floor > latest:
        latest = max(latest, floor)
        stored[CONVERSATIONS].update_one(own, _raise(latest), session=session)
    remove(stored, session, replaced)
    if given.trace is not None:  # last, since its id may be that of a trace that is replaced
        _insert(stored[TRACES], session, [given.trace])
    return floor


def _raise(latest: int) -> Document:
    return {**TOUCH, "$max": {"last_updated_at": latest}}


def _not_before(floor: int, message: Document) -> Document:
    return {**message, "timestamp": max(floor, message["timestamp"])}


def _complete(
    stored: Collections, given: AppendDocuments, before: Sequence[Document], last: Document | None
) -> None:
    """Do the rest of an append that ended half-way on a standalone server."""
    places = {id_of(document): document for document in before}
    first = places.get(given.messages[0]["id"])
    prefix = [message for message in given.messages if message["id"] in places]
    if first is None or prefix != list(given.messages[: len(prefix)]):
        return
    if any(document.get("conversation_id") != given.conversation_id for document in before):
        return
    floor = time_of(first)
    rest = [_not_before(floor, message) for message in given.messages[len(prefix) :]]
    _insert(stored[MESSAGES], None, rest)
    latest = max(floor, given.messages[-1]["timestamp"])
    stored[CONVERSATIONS].update_one(equal(id=given.conversation_id), _raise(latest))
    if given.replace_after is not NOTHING:
        later = tail(stored, None, given.conversation_id, last)
        remove(stored, None, [message for message in later if message["_id"] < first["_id"]])
    if given.trace is not None:
        query = equal(id=given.trace["id"], message_id=given.trace["message_id"])
        stored[TRACES].replace_one(query, given.trace, True)


def tail(
    stored: Collections, session: Session | None, conversation_id: str, last: Document | None
) -> list[Document]:
    """Return the ids of the messages after one of a conversation, or of all, newest first."""
    query = MESSAGES_OF_CONVERSATION.of(conversation_id, last)
    sort = NEWEST_MESSAGES.sort
    fields = {"id": 1, TOUCHED: 1}
    later = stored[MESSAGES].find(query, fields, sort=sort, batch_size=_AT_ONCE, session=session)
    return later.to_list()


def remove(
    stored: Collections,
    session: Session | None,
    messages: Sequence[Document],
    condition: Document | None = None,
) -> DeletedCounts:
    """Delete messages, first their traces, and return how many.

    Args:
        messages: each with its id and its `_id`.
        condition: what must hold for a message.
    """
    erased = DeletedCounts()
    for begin in range(0, len(messages), _AT_ONCE):
        part = messages[begin : begin + _AT_ONCE]
        of_messages = among("message_id", list(map(id_of, part)))
        traces = stored[TRACES].delete_many(of_messages, session=session)
        places = {"_id": {"$in": [document["_id"] for document in part]}, **(condition or {})}
        result = stored[MESSAGES].delete_many(places, session=session)
        erased = erased.plus(DeletedCounts(0, result.deleted_count, traces.deleted_count))
    return erased


def copy(
    stored: Collections,
    session: Session | None,
    fork: Fork,
    conversation: Document,
    viewer: str | None,
) -> dict[str, str]:
    """Store a conversation with copies of messages and traces; return the new ids by the old.

    The conversation is stored last: until then, nobody knows of its messages. So what a process
    left that was killed on a standalone server belongs to no conversation, and is deleted here.
    """
    source, until, _, salt = fork
    new_id, ids = conversation["id"], dict[str, str]()
    owned, place = equal(conversation_id=source), {"_id": 1}
    own = {**equal(id=source), **seen(viewer)}
    if stored[CONVERSATIONS].find_one(own, place, session=session) is None:
        raise NotFoundError(f"conversation {source!r} is not stored")
    if until is not None:
        query = {**owned, **equal(id=until)}
        if stored[MESSAGES].find_one(query, place, session=session) is None:
            raise NotFoundError(f"message {until!r} is no message of this conversation")
    if not remove_orphans(stored, session, new_id):
        raise ConflictError(f"conversation {new_id!r} is stored already; fork to a new one")
    copies: list[Document] = []
    sort = MESSAGES_OF_CONVERSATION.sort
    cursor = stored[MESSAGES].find(owned, sort=sort, batch_size=_COPIED_AT_ONCE, session=session)
    with cursor:
        for message in cursor:
            copies.append(copied_message(message, new_id, salt))
            ids[id_of(message)] = copies[-1]["id"]
            if len(copies) == _COPIED_AT_ONCE:
                _insert(stored[MESSAGES], session, copies)
                copies.clear()
            if id_of(message) == until:
                break
    _insert(stored[MESSAGES], session, copies)
    _copy_traces(stored, session, ids, new_id, salt)
    _insert(stored[CONVERSATIONS], session, [conversation])
    return ids


def _copy_traces(
    stored: Collections, session: Session | None, ids: dict[str, str], new_id: str, salt: UUID
) -> None:
    traces, places, sources = stored[TRACES], list[Any](), list(ids)
    for begin in range(0, len(sources), _AT_ONCE):
        part = among("message_id", sources[begin : begin + _AT_ONCE])
        documents = traces.find(part, {"_id": 1}, session=session).to_list()
        places += [document["_id"] for document in documents]
    places.sort()  # traces with the same `turn_number` are ordered by `_id`
    for begin in range(0, len(places), _COPIED_AT_ONCE):
        query = {"_id": {"$in": places[begin : begin + _COPIED_AT_ONCE]}}
        documents = traces.find(query, sort=[("_id", 1)], session=session).to_list()
        copies = [copied_trace(document, new_id, salt, ids) for document in documents]
        _insert(traces, session, copies)


# Deleting


# Another process may store a message with a guard while the conversation is being deleted, unseen
# by the transaction. So the messages are retired before, and the conversation is deleted in a
# transaction that finds retired messages alone.


def retire(stored: Collections, session: Session | None, conversation_id: str) -> None:
    """Make the messages of a conversation no guards any more, before it is deleted."""
    if session is not None:
        owned = equal(conversation_id=conversation_id)
        stored[MESSAGES].update_many(owned, RETIRE, session=session)


def remove_orphans(
    stored: Collections, session: Session | None, conversation_id: str
) -> bool:
    """Delete the messages of a conversation if it is not stored; return whether it is not."""
    own = equal(id=conversation_id)
    if stored[CONVERSATIONS].find_one(own, {"_id": 1}, session=session) is not None:
        return False
    remove(stored, session, tail(stored, session, conversation_id, None))
    return True


def erase_conversation(
    stored: Collections, session: Session | None, conversation_id: str, own: Document, limit: int
) -> DeletedCounts | None:
    """Delete the oldest messages of a conversation, and the conversation with the last.

    None, and nothing is deleted, if the conversation would go with messages that are not retired.

    Args:
        own: the query for the conversation, with what must hold for it.
        limit: how many messages at most; 0 is no limit.
    """
    query, sort = equal(conversation_id=conversation_id), MESSAGES_OF_CONVERSATION.sort
    fields = {"id": 1, TOUCHED: 1}
    cursor = stored[MESSAGES].find(query, fields, sort=sort, limit=limit, session=session)
    oldest = cursor.to_list()
    is_last = not limit or len(oldest) < limit
    if is_last and session is not None and not all(map(is_retired, oldest)):
        return None
    if is_last and session is not None:
        is_stored = (stored[CONVERSATIONS].delete_one(own, session=session)).deleted_count
    else:
        touched = stored[CONVERSATIONS].update_one(own, TOUCH, session=session)
        is_stored = touched.matched_count
    erased = DeletedCounts()
    if is_stored:
        erased = remove(stored, session, oldest)
        erased = erased._replace(conversations=int(is_last))
    if is_last and session is None:
        stored[CONVERSATIONS].delete_one(own)
        remove_orphans(stored, None, conversation_id)
    return erased
