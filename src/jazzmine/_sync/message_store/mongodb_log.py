"""The calls on MongoDB that treat a conversation as a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bson import ObjectId
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from jazzmine._sync.message_store.mongodb_log_locks import LogLocks
from jazzmine._compat.sync_concurrency import Work
from jazzmine.backends.mongodb.documents import (
    Document,
    conversation_document,
    message_documents,
    read_conversation,
    read_message,
)
from jazzmine.backends.mongodb.log import appended, changed, chunks, in_conversation, newest_of
from jazzmine.backends.mongodb.queries import (
    MESSAGES_OF_CONVERSATION,
    NEWEST_MESSAGES,
    among,
    equal,
)
from jazzmine.errors import ConflictError
from jazzmine.records.base import Snapshot
from jazzmine.records.conversation_log import Newest, messages_to_append, unknown_conversation
from jazzmine.records.log import AnyMessage
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import UNKNOWN_ID, Repairs

if TYPE_CHECKING:
    from jazzmine._sync.message_store.mongodb_client import MongoDBClient
    from jazzmine._sync.message_store.mongodb_types import Session
    from jazzmine._sync.message_store.mongodb_writes import MongoDBWrites

__all__ = ["MongoDBLog"]

_DELETED_A_COMMAND = 10_000


class MongoDBLog:
    """Creates conversations, and appends and deletes messages at the end of them.

    On a standalone server, messages are deleted from the newest to the oldest, so that a call
    that failed has deleted the end of the log. There, an attempt goes on with what the one
    before has chosen; a transaction that failed has changed nothing, and the next one chooses
    again.
    """

    def __init__(
        self, client: MongoDBClient, writes: MongoDBWrites, locks: LogLocks, repairs: Repairs
    ) -> None:
        self._client = client
        self._writes = writes
        self._locks = locks
        self._repairs = repairs

    def create(self, conversation: Snapshot[Conversation]) -> Conversation:
        """Store a conversation if its id is new; return the stored one."""
        known, client = self._writes.known_conversations, self._client
        changes = known.changes
        document = conversation_document(conversation)
        stored = client.write(client.deadline(), self._create, document)
        known.remember([document["id"]], changes)
        return read_conversation(stored, self._repairs)

    def _create(self, session: Session | None, document: Document) -> Document:
        stored = None
        # Once, except that the test server returns nothing if another client inserts just then.
        while stored is None:
            stored = self._client.conversations.find_one_and_update(
                equal(id=document["id"]),
                {"$setOnInsert": document},
                upsert=True,
                return_document=ReturnDocument.AFTER,
                session=session,
            )
        return stored

    # Appending

    def append(
        self,
        conversation_id: str,
        messages: Sequence[Snapshot[Message]],
        expected_last: str | AnyMessage | None,
    ) -> list[Message]:
        """Store messages after all others; raises as `messages_to_append` does."""
        conversations, known = self._writes.known_conversations, self._writes.known_messages
        changes = conversations.changes, known.changes
        given = [message.record for message in messages]
        wanted = (conversation_id, self._append, conversation_id, given, expected_last)
        stored: list[Message] = self._writes.write(
            [conversation_id], self._locks.run, *wanted
        )
        conversations.remember([conversation_id], changes[0])
        known.remember([message.id for message in stored], changes[1])
        return stored

    def _append(
        self,
        session: Session | None,
        conversation_id: str,
        given: list[Message],
        expected_last: str | AnyMessage | None,
    ) -> list[Message]:
        client, wanted = self._client, (conversation_id, given, expected_last)
        if session is not None:
            try:
                return client.transaction(session, self._append_once, *wanted, True)
            except (ConflictError, DuplicateKeyError):
                pass  # The ids may be stored already, which counts as done.
        return client.transaction(session, self._append_once, *wanted, False)

    def _append_once(
        self,
        session: Session | None,
        conversation_id: str,
        given: list[Message],
        expected_last: str | AnyMessage | None,
        are_new: bool,
    ) -> list[Message]:
        """Append messages in a transaction.

        Args:
            are_new: whether to rely on the ids being new; if one is not, it is refused.
        """
        raised: int | None = None
        if session is not None and are_new:
            # First, so that a call that has to wait for another one learns of it at once.
            raised = max(message.timestamp for message in given)
            self._begin_append(session, conversation_id, raised, given)
        stored = {} if are_new else self._stored(session, conversation_id, given)
        newest = self._newest(session, conversation_id)
        new = messages_to_append(given, stored, newest, expected_last)
        if not new:
            return [stored[message.id] for message in given]
        documents = message_documents([Snapshot(message) for message in new])
        latest = new[-1].timestamp
        if raised != latest:
            self._begin_append(session, conversation_id, latest, new)
        self._client.insert_all(self._client.messages, documents, session)
        return new

    def _begin_append(
        self, session: Session | None, conversation_id: str, latest: int, new: list[Message]
    ) -> None:
        """Write to the conversation; raise IntegrityError if it is not stored."""
        change = None if session is None else ObjectId()
        update = appended(change, latest, [message.id for message in new])
        own = equal(id=conversation_id)
        found = self._client.conversations.update_one(own, update, session=session)
        if not found.matched_count:
            raise unknown_conversation(conversation_id)

    def _stored(
        self, session: Session | None, conversation_id: str, given: list[Message]
    ) -> dict[str, Message]:
        """Return those of the messages that are stored, by id."""
        client, own = self._client, equal(id=conversation_id)
        if client.conversations.find_one(own, {"_id": 1}, session=session) is None:
            raise unknown_conversation(conversation_id)
        some = among("id", [message.id for message in given])
        documents = client.messages.find(some, session=session).to_list()
        read = (read_message(document, self._repairs) for document in documents)
        return {message.id: message for message in read}

    def _newest(self, session: Session | None, conversation_id: str) -> Newest | None:
        found = self._client.messages.find_one(
            equal(conversation_id=conversation_id),
            {"id": 1, "timestamp": 1},
            sort=NEWEST_MESSAGES.sort,
            session=session,
        )
        return None if found is None else newest_of(found)

    # Deleting

    def pop(self, conversation_id: str) -> Message | None:
        """Delete the newest message with its trace, and return it."""
        taken: list[Message] = []
        self._cut(conversation_id, self._choose_newest, taken)
        return taken[0] if taken else None

    def rewind(self, conversation_id: str, after: str | None) -> int:
        """Delete the messages after one, or all, with their traces; return how many."""
        return self._cut(conversation_id, self._choose_later, after)

    def _cut(self, conversation_id: str, choose: Work[list[Document]], choice: Any) -> int:
        """Delete the messages that `choose` returns, newest first, and return how many."""
        chosen: list[Document] = []
        cut = (self._cut_in_transaction, conversation_id, choose, choice, chosen)
        try:
            self._writes.delete([conversation_id], self._locks.run, conversation_id, *cut)
        finally:
            self._forget(chosen)
        return len(chosen)

    def _cut_in_transaction(self, session: Session | None, *args: Any) -> None:
        self._client.transaction(session, self._cut_once, *args)

    def _cut_once(
        self,
        session: Session | None,
        conversation_id: str,
        choose: Work[list[Document]],
        choice: Any,
        chosen: list[Document],
    ) -> None:
        client = self._client
        if session is not None:
            own = equal(id=conversation_id)
            client.conversations.update_one(own, changed(ObjectId()), session=session)
        if session is not None or not chosen:
            chosen[:] = choose(session, conversation_id, choice)
        self._forget(chosen)
        for some in chunks(chosen, _DELETED_A_COMMAND):
            of_messages = among("message_id", _ids(some))
            client.traces.delete_many(of_messages, session=session)
            places = [document["_id"] for document in some]
            query = in_conversation(conversation_id, places)
            client.messages.delete_many(query, session=session)

    def _choose_newest(
        self, session: Session | None, conversation_id: str, taken: list[Message]
    ) -> list[Document]:
        """Put the newest message into `taken`."""
        taken.clear()
        own = equal(conversation_id=conversation_id)
        sort = NEWEST_MESSAGES.sort
        found = self._client.messages.find_one(own, sort=sort, session=session)
        if found is None:
            return []
        taken.append(read_message(found.copy(), self._repairs))
        return [found]

    def _choose_later(
        self, session: Session | None, conversation_id: str, after: str | None
    ) -> list[Document]:
        messages, listing, last = self._client.messages, MESSAGES_OF_CONVERSATION, None
        if after is not None:
            found = (messages, listing, conversation_id, after, session)
            last = self._client.find_cursor(*found)
        later = messages.find(
            listing.of(conversation_id, last),
            {"id": 1},
            sort=NEWEST_MESSAGES.sort,
            batch_size=_DELETED_A_COMMAND,
            session=session,
        )
        return later.to_list()

    def _forget(self, messages: Sequence[Document]) -> None:
        self._writes.known_messages.forget(_ids(messages))


def _ids(documents: Sequence[Document]) -> list[str]:
    return [document.get("id") or UNKNOWN_ID for document in documents]
