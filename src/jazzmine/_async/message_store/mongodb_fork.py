"""Copies a conversation on MongoDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from pymongo.errors import DuplicateKeyError, PyMongoError

from jazzmine._async.message_store.mongodb_log_locks import LogLocks
from jazzmine.backends.mongodb.documents import Document, conversation_document
from jazzmine.backends.mongodb.log import chunks, copied_message, copied_trace, new_copy
from jazzmine.backends.mongodb.queries import MESSAGES_OF_CONVERSATION, among, equal
from jazzmine.deadline import Deadline
from jazzmine.errors import ConflictError, JazzmineError, NotFoundError
from jazzmine.records.base import Snapshot
from jazzmine.records.messages import Conversation

if TYPE_CHECKING:
    from jazzmine._async.message_store.mongodb_client import MongoDBClient
    from jazzmine._async.message_store.mongodb_types import Session
    from jazzmine._async.message_store.mongodb_writes import MongoDBWrites

__all__ = ["MongoDBForks"]

_COPIED_AT_ONCE = 1_000
_IDS_A_COMMAND = 10_000


class MongoDBForks:
    """Copies conversations, in a transaction if the deployment has transactions.

    On a standalone server the new conversation is stored first, marked as unfinished, and the
    mark is removed last. The next call on the log of an unfinished copy first deletes the copy.
    """

    def __init__(self, client: MongoDBClient, writes: MongoDBWrites, locks: LogLocks) -> None:
        self._client = client
        self._writes = writes
        self._locks = locks

    async def fork(
        self, conversation_id: str, until: str | None, copy: Snapshot[Conversation], salt: UUID
    ) -> dict[str, str]:
        """Store a conversation with copies of messages and traces; return the new ids by old."""
        known, document = self._writes.known_conversations, conversation_document(copy)
        changes, new_id = known.changes, document["id"]
        finished: list[dict[str, str]] = []
        new_ids: dict[str, str] = await self._writes.write(
            [new_id], self._fork, conversation_id, until, document, salt, finished
        )
        known.remember([new_id], changes)
        return new_ids

    async def _fork(self, deadline: Deadline, source: str, *args: Any) -> dict[str, str]:
        ids, locks = [source, args[1]["id"]], self._locks
        if self._client.has_transactions:
            return await self._client.write(deadline, self._fork_in_transaction, source, *args)
        return await locks.queued(deadline, ids, self._fork_leased, deadline, source, *args)

    async def _fork_in_transaction(
        self,
        session: Session | None,
        source: str,
        until: str | None,
        document: Document,
        salt: UUID,
        finished: list[dict[str, str]],
    ) -> dict[str, str]:
        work = self._fork_once
        return await self._client.transaction(session, work, source, until, document, salt)

    async def _fork_once(
        self,
        session: Session | None,
        source: str,
        until: str | None,
        document: Document,
        salt: UUID,
    ) -> dict[str, str]:
        await self._require_source(session, source, until)
        conversations, new_id = self._client.conversations, document["id"]
        if await conversations.find_one(equal(id=new_id), {"_id": 1}, session=session) is not None:
            raise _stored_already(new_id)
        await self._client.insert_all(conversations, [document], session)
        return await self._copy(session, source, until, new_id, salt)

    async def _require_source(
        self, session: Session | None, source: str, until: str | None
    ) -> None:
        conversations, messages = self._client.conversations, self._client.messages
        if await conversations.find_one(equal(id=source), {"_id": 1}, session=session) is None:
            raise NotFoundError(f"conversation {source!r} is not stored")
        if until is not None:
            query = {**equal(conversation_id=source), **equal(id=until)}
            if await messages.find_one(query, {"_id": 1}, session=session) is None:
                raise NotFoundError(f"message {until!r} is no message of this conversation")

    async def _copy(
        self, session: Session | None, source: str, until: str | None, new_id: str, salt: UUID
    ) -> dict[str, str]:
        """Copy messages, and then their traces; return the new ids of the messages by the old."""
        messages, ids = self._client.messages, dict[str, str]()
        copies: list[Document] = []
        found = messages.find(
            equal(conversation_id=source),
            sort=MESSAGES_OF_CONVERSATION.sort,
            batch_size=_COPIED_AT_ONCE,
            session=session,
        )
        async with found:
            async for document in found:
                source_id, copy = copied_message(document, new_id, salt)
                ids[source_id] = copy["id"]
                copies.append(copy)
                if len(copies) == _COPIED_AT_ONCE:
                    await self._client.insert_all(messages, copies, session)
                    copies.clear()
                if source_id == until:
                    break
        if copies:
            await self._client.insert_all(messages, copies, session)
        await self._copy_traces(session, ids, new_id, salt)
        return ids

    async def _copy_traces(
        self, session: Session | None, ids: dict[str, str], new_id: str, salt: UUID
    ) -> None:
        traces, places = self._client.traces, list[Any]()
        for some in chunks(list(ids), _IDS_A_COMMAND):
            found = traces.find(among("message_id", some), {"_id": 1}, session=session)
            places += [document["_id"] for document in await found.to_list()]
        # Traces with the same `turn_number` are ordered by `_id`.
        for part in chunks(sorted(places), _COPIED_AT_ONCE):
            query = {"_id": {"$in": part}}
            documents = await traces.find(query, sort=[("_id", 1)], session=session).to_list()
            copies = [copied_trace(document, new_id, salt, ids) for document in documents]
            await self._client.insert_all(traces, copies, session)

    # On a standalone server

    async def _fork_leased(
        self,
        session: Session | None,
        deadline: Deadline,
        source: str,
        until: str | None,
        document: Document,
        salt: UUID,
        finished: list[dict[str, str]],
    ) -> dict[str, str]:
        """Copy a conversation while no other call changes the two logs.

        Args:
            finished: the result, once an attempt has copied everything.
        """
        locks, new_id = self._locks, document["id"]
        if finished:
            await locks.unlock(new_id)
            await locks.unlock(source)
            return finished[0]
        is_locked = await locks.lock(source, deadline)
        try:
            await self._require_source(session, source, until)
            await self._begin_copy(deadline, document)
            finished.append(await self._copy(session, source, until, new_id, salt))
        except (PyMongoError, JazzmineError):
            await locks.abandon(new_id)
            if is_locked:
                await locks.unlock(source)
            raise
        await locks.unlock(new_id)
        await locks.unlock(source)
        return finished[0]

    async def _begin_copy(self, deadline: Deadline, document: Document) -> None:
        """Store a conversation that is marked as unfinished, with its lease."""
        conversations, locks, new_id = self._client.conversations, self._locks, document["id"]
        while True:
            marked = new_copy(document, locks.token, deadline.remaining())
            # The query finds nothing, so the update inserts, or the unique index refuses it.
            missing = {**equal(id=new_id), "_id": {"$exists": False}}
            try:
                await conversations.update_one(missing, marked, upsert=True)
                return
            except DuplicateKeyError:
                if await locks.lock(new_id, deadline):
                    raise _stored_already(new_id) from None


def _stored_already(conversation_id: str) -> ConflictError:
    return ConflictError(f"conversation {conversation_id!r} is stored already; fork to a new one")
