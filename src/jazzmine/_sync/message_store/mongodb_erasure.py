"""Erases users and deletes old conversations on MongoDB, in small transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jazzmine._sync.message_store.mongodb_log_locks import LogLocks
from jazzmine.backends.mongodb.documents import Document
from jazzmine.backends.mongodb.log import OLDEST_CONVERSATIONS, older_than, since
from jazzmine.backends.mongodb.queries import MESSAGES_OF_CONVERSATION, among, equal
from jazzmine.deadline import Deadline
from jazzmine.records.conversation_log import Erased
from jazzmine.records.repair import UNKNOWN_ID

if TYPE_CHECKING:
    from jazzmine._sync.message_store.mongodb_client import MongoDBClient
    from jazzmine._sync.message_store.mongodb_types import Collection, Session
    from jazzmine._sync.message_store.mongodb_writes import MongoDBWrites

__all__ = ["MongoDBErasure"]


class MongoDBErasure:
    """Deletes the records of a user, and old conversations.

    Each query names what an index finds, and a transaction has at most about `limit` records.
    """

    def __init__(self, client: MongoDBClient, writes: MongoDBWrites, locks: LogLocks) -> None:
        self._client = client
        self._writes = writes
        self._locks = locks

    def erase(self, user_id: str, limit: int) -> Erased:
        """Delete some of a user's records; return how many, none if there are no more."""
        client, own = self._client, equal(user_id=user_id)
        while places := client.read(self._find, client.traces, own, "_id", limit):
            deadline = client.deadline()
            traces = client.write(deadline, self._delete_traces, places)
            if traces:
                return Erased(0, 0, traces)
        while ids := client.read(self._find, client.messages, own, "id", limit):
            erased: Erased = self._writes.delete(ids, self._erase_messages, own, ids)
            if any(erased):
                return erased
        while ids := client.read(self._find, client.conversations, own, "id", 1):
            [found] = ids
            wanted = (self._locks.run, found, self._erase_conversation, found, own, limit)
            erased = self._writes.delete(ids, *wanted)
            self._writes.known_conversations.forget(ids)
            if any(erased):
                return erased
        return Erased()

    def _find(
        self, collection: Collection, query: Document, field: str, limit: int
    ) -> list[Any]:
        """Return a field of the documents that match a query, at most `limit`."""
        found = collection.find(query, {field: 1}, limit=limit, batch_size=limit)
        return [document.get(field) or UNKNOWN_ID for document in found.to_list()]

    def _delete_traces(self, session: Session | None, places: Sequence[Any]) -> int:
        query = {"_id": {"$in": list(places)}}
        done = self._client.traces.delete_many(query, session=session)
        return done.deleted_count

    def _erase_messages(
        self, deadline: Deadline, own: Document, ids: Sequence[str]
    ) -> Erased:
        client, known = self._client, self._writes.known_messages
        known.forget(ids)
        try:
            done: Erased = client.write(
                deadline, client.transaction, self._delete_messages, own, ids
            )
            return done
        finally:
            known.forget(ids)

    def _delete_messages(
        self, session: Session | None, own: Document, ids: Sequence[str]
    ) -> Erased:
        client = self._client
        traces = client.traces.delete_many(among("message_id", ids), session=session)
        query = {**own, **among("id", ids)}
        messages = client.messages.delete_many(query, session=session)
        return Erased(0, messages.deleted_count, traces.deleted_count)

    def _erase_conversation(
        self, session: Session | None, conversation_id: str, own: Document, limit: int
    ) -> Erased:
        work = self._erase_part
        return self._client.transaction(session, work, conversation_id, own, limit)

    def _erase_part(
        self, session: Session | None, conversation_id: str, own: Document, limit: int
    ) -> Erased:
        """Delete the oldest messages of a conversation, and the conversation after the last."""
        client, erased = self._client, Erased()
        owned, sort = equal(conversation_id=conversation_id), MESSAGES_OF_CONVERSATION.sort
        found = client.messages.find(owned, {"id": 1}, sort=sort, limit=limit, session=session)
        ids = [document.get("id") or UNKNOWN_ID for document in found.to_list()]
        if ids:
            self._writes.known_messages.forget(ids)
            erased = self._delete_messages(session, owned, ids)
        if len(ids) < limit:
            query = {**own, **equal(id=conversation_id)}
            gone = client.conversations.delete_one(query, session=session)
            erased = erased._replace(conversations=gone.deleted_count)
        return erased

    def iter_old(self, before: int, size: int) -> Iterator[list[str]]:
        """Yield the ids of conversations that were last updated before a time, oldest first."""
        client, query, last = self._client, older_than(before), None
        while found := client.read(
            self._find_oldest, client.conversations, query, last, size
        ):
            last = OLDEST_CONVERSATIONS.cursor(found[-1])
            yield [one.get("id") or UNKNOWN_ID for one in found]

    def prune(self, ids: Sequence[str], before: int, limit: int) -> tuple[int, int]:
        """Delete up to `limit` messages of the first conversation, and it after the last.

        Returns:
            How many conversations were deleted, and how many need no other step.
        """
        first = ids[0]
        if self._client.read(self._is_used, None, first, before):
            return 0, 1
        wanted = (self._locks.run, first, self._prune, first, before, limit)
        known = self._writes.known_conversations
        try:
            known.forget([first])
            pruned: Erased = self._writes.delete([first], *wanted)
        finally:
            known.forget([first])
        is_done = pruned.conversations or not any(pruned)
        return pruned.conversations, int(is_done)

    def _find_oldest(
        self, conversations: Collection, query: Document, last: Document | None, size: int
    ) -> list[Document]:
        listing = OLDEST_CONVERSATIONS
        query = query if last is None else listing.after(query, last)
        projection = {"id": 1, listing.field: 1}
        found = conversations.find(query, projection, sort=listing.sort, limit=size)
        return found.to_list()

    def _prune(
        self, session: Session | None, conversation_id: str, before: int, limit: int
    ) -> Erased:
        work = self._prune_part
        return self._client.transaction(session, work, conversation_id, before, limit)

    def _prune_part(
        self, session: Session | None, conversation_id: str, before: int, limit: int
    ) -> Erased:
        old = older_than(before)
        query = {**old, **equal(id=conversation_id)}
        conversations = self._client.conversations
        if conversations.find_one(query, {"_id": 1}, session=session) is None:
            return Erased()
        if self._is_used(session, conversation_id, before):
            return Erased()
        return self._erase_part(session, conversation_id, old, limit)

    def _is_used(self, session: Session | None, conversation_id: str, before: int) -> bool:
        """Return whether a conversation has a message of a time or later."""
        query = since(conversation_id, before)
        found = self._client.messages.find_one(query, {"_id": 1}, session=session)
        return found is not None
