"""The commands of each write to MongoDB, their order, and the checks before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from bson import encode
from bson.raw_bson import RawBSONDocument
from pymongo.errors import BulkWriteError, DuplicateKeyError

from jazzmine._async.message_store.deletion_gate import DeletionGate
from jazzmine._compat.async_microbatch import MicroBatcher
from jazzmine.backends.mongodb.documents import Document, Turn
from jazzmine.backends.mongodb.known_ids import KnownIds
from jazzmine.backends.mongodb.log import keeping_lock
from jazzmine.backends.mongodb.queries import (
    among,
    equal,
    flag,
    other_traces,
    same_id_or_message,
)
from jazzmine.deadline import Deadline
from jazzmine.errors import IntegrityError

if TYPE_CHECKING:
    from jazzmine._async.message_store.mongodb_client import MongoDBClient
    from jazzmine._async.message_store.mongodb_types import Collection, Session
    from jazzmine._compat.async_concurrency import Work

__all__ = ["MongoDBWrites"]

T = TypeVar("T")

_MAX_KNOWN = 10_000
_IDS_A_COMMAND = 10_000
_MAX_CONCURRENCY = 4


class MongoDBWrites:
    """The writes; each is all or nothing if the deployment has transactions.

    On a standalone server a conversation is written before its messages and a message before
    its trace, and they are deleted in reverse order. So if a call fails between two commands,
    no trace is stored without its message, and no message without its conversation.
    """

    def __init__(self, client: MongoDBClient) -> None:
        self._client = client
        self.after_fork()

    def after_fork(self) -> None:
        """Start with new locks: a thread of the parent process may have held one."""
        self.known_conversations = KnownIds(_MAX_KNOWN)
        self.known_messages = KnownIds(_MAX_KNOWN)
        self._known_traces = KnownIds(_MAX_KNOWN)  # some may be deleted: only a hint
        self._gate = DeletionGate()
        self._batcher: MicroBatcher[Document] = MicroBatcher(
            self._put_batch, _MAX_CONCURRENCY, self._client.unanswered
        )

    async def write(self, ids: Sequence[str], work: Work[T], *args: Any) -> T:
        """Call `work`, with a deadline and `args`, while none of the ids is being deleted."""
        deadline = self._client.deadline()
        if not await self._gate.begin_writing(ids, deadline):
            raise self._client.unanswered()
        try:
            return await work(deadline, *args)
        finally:
            self._gate.end_writing(ids)

    async def delete(self, ids: Sequence[str], work: Work[T], *args: Any) -> T:
        """Call `work`, with a deadline and `args`, while none of the ids is being written to."""
        deadline = self._client.deadline()
        if not await self._gate.begin_deleting(ids, deadline):
            raise self._client.unanswered()
        try:
            return await work(deadline, *args)
        finally:
            self._gate.end_deleting(ids)

    async def _delete_one(
        self, deadline: Deadline, known: KnownIds, deleted: str, work: Work[bool]
    ) -> bool:
        """Call `work`, which deletes a record, and return whether it was stored."""
        known.forget([deleted])
        try:
            client = self._client
            found: bool = await client.write(deadline, client.transaction, work, deleted)
            return found
        finally:
            known.forget([deleted])

    # Conversations and messages

    async def store_conversation(self, document: Document) -> None:
        """Store a conversation."""
        changes, client = self.known_conversations.changes, self._client
        await client.write(client.deadline(), self._put_conversation, document)
        self.known_conversations.remember([document["id"]], changes)

    async def store_conversations(self, documents: Sequence[Document]) -> None:
        """Store conversations in their order, each id once."""
        changes, client = self.known_conversations.changes, self._client
        await client.write(client.deadline(), self._put_conversations, documents)
        self.known_conversations.remember([document["id"] for document in documents], changes)

    async def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation, its messages and their traces."""
        known, remove = self.known_conversations, self.remove_conversation
        deleted = [conversation_id]
        return await self.delete(deleted, self._delete_one, known, conversation_id, remove)

    async def remove_conversation(self, session: Session | None, conversation_id: str) -> bool:
        """Delete a conversation in a transaction; return whether it was stored."""
        client, owned = self._client, equal(conversation_id=conversation_id)
        ids = await client.find_ids(client.messages, owned, session)
        self.known_messages.forget(ids)
        for begin in range(0, len(ids), _IDS_A_COMMAND):
            some = among("message_id", ids[begin : begin + _IDS_A_COMMAND])
            await client.traces.delete_many(some, session=session)
        if ids:
            await client.messages.delete_many(owned, session=session)
        gone = await client.conversations.delete_one(equal(id=conversation_id), session=session)
        return bool(gone.deleted_count)

    async def store_messages(self, documents: Sequence[Document], owners: Sequence[str]) -> None:
        """Store messages.

        Args:
            documents: each id once.
            owners: the conversations of all messages, also of those with a later duplicate.
        """
        changes = self.known_messages.changes
        await self.write(owners, self._put_messages, documents, owners)
        self.known_messages.remember([document["id"] for document in documents], changes)

    async def _put_messages(
        self, deadline: Deadline, documents: Sequence[Document], owners: Sequence[str]
    ) -> None:
        await self._require_conversations(deadline, owners)
        if len(documents) == 1:
            await self._batcher.run(documents[0], deadline)
        else:
            await self._client.write(deadline, self._client.transaction, self._put_all, documents)

    async def _put_batch(self, documents: Sequence[Document], deadline: Deadline) -> None:
        client = self._client
        if len(documents) == 1:
            await client.write(deadline, self._put, client.messages, documents[0])
        else:
            await client.write(deadline, self._put_all, documents)

    async def _put(
        self, session: Session | None, collection: Collection, document: Document
    ) -> None:
        query = equal(id=document["id"])
        await collection.replace_one(query, document, upsert=True, session=session)

    async def _put_conversation(self, session: Session | None, document: Document) -> None:
        conversations = self._client.conversations
        if session is not None:
            await self._put(session, conversations, document)
        else:
            query = equal(id=document["id"])
            await conversations.update_one(query, keeping_lock(document), upsert=True)

    async def _put_conversations(
        self, session: Session | None, documents: Sequence[Document]
    ) -> None:
        if session is not None:
            await self._put_many(session, self._client.conversations, documents)
        else:
            for document in documents:
                await self._put_conversation(session, document)

    async def _put_all(self, session: Session | None, documents: Sequence[Document]) -> None:
        await self._client.replace_all(self._client.messages, documents, session)

    async def _put_many(
        self, session: Session | None, collection: Collection, documents: Sequence[Document]
    ) -> None:
        await self._client.replace_all(collection, documents, session)

    async def _require_conversations(
        self, deadline: Deadline, owners: Sequence[str], besides: str = ""
    ) -> None:
        """Raise IntegrityError unless the conversations are stored."""
        known, client = self.known_conversations, self._client
        changes = known.changes
        unknown = known.unknown(owner for owner in owners if owner != besides)
        if not unknown:
            return
        stored = await client.read_until(
            deadline, client.find_ids, client.conversations, among("id", unknown)
        )
        for owner in unknown:
            if owner not in stored:
                raise IntegrityError(
                    f"the conversation {owner!r} of a message is not stored;"
                    " store the conversation first"
                )
        known.remember(stored, changes)

    async def delete_message(self, message_id: str) -> bool:
        """Delete a message and its trace."""
        known, remove = self.known_messages, self._remove_message
        return await self.delete([message_id], self._delete_one, known, message_id, remove)

    async def _remove_message(self, session: Session | None, message_id: str) -> bool:
        client = self._client
        await client.traces.delete_many(equal(message_id=message_id), session=session)
        gone = await client.messages.delete_one(equal(id=message_id), session=session)
        return bool(gone.deleted_count)

    async def flag_message(self, message_id: str, flagged: bool) -> bool:
        """Set or clear a message's flag, and return whether the message was stored."""
        deadline = self._client.deadline()
        return await self._client.write(deadline, self._put_flag, message_id, flagged)

    async def _put_flag(self, session: Session | None, message_id: str, flagged: bool) -> bool:
        messages = self._client.messages
        done = await messages.update_one(equal(id=message_id), flag(flagged), session=session)
        return bool(done.matched_count)

    # Traces and turns

    async def store_trace(self, document: Document) -> None:
        """Store a trace in place of any other trace of its message."""
        ids = (document["message_id"], document["conversation_id"])
        await self.write(ids, self._put_trace, document)

    async def store_traces(self, documents: Sequence[Document]) -> None:
        """Store traces in their order, each id and each message once."""
        ids = [
            document[name] for document in documents for name in ("message_id", "conversation_id")
        ]
        try:
            await self.write(ids, self._put_traces, documents)
        except BulkWriteError:
            # Another trace of one of the messages is there, and has to be deleted.
            for document in documents:
                await self.store_trace(document)

    async def _put_traces(self, deadline: Deadline, documents: Sequence[Document]) -> None:
        await self._require_messages(deadline, documents)
        client = self._client
        await client.write(deadline, client.transaction, self._put_all_traces, documents)

    async def _put_all_traces(self, session: Session | None, documents: Sequence[Document]) -> None:
        await self._client.replace_all(self._client.traces, documents, session, "message_id")

    async def _put_trace(self, deadline: Deadline, document: Document) -> None:
        await self._require_message(deadline, document)
        await self._client.write(deadline, self._put_trace_alone, document)

    async def _require_message(self, deadline: Deadline, trace: Document) -> None:
        """Raise IntegrityError unless the message of a trace is stored."""
        await self._require_messages(deadline, [trace])

    async def _require_messages(self, deadline: Deadline, traces: Sequence[Document]) -> None:
        """Raise IntegrityError unless the messages of traces are stored."""
        known, client = self.known_messages, self._client
        changes = known.changes
        unknown = known.unknown(trace["message_id"] for trace in traces)
        if not unknown:
            return
        query = equal(id=unknown[0]) if len(unknown) == 1 else among("id", unknown)
        stored = await client.read_until(deadline, client.find_ids, client.messages, query)
        missing = set(unknown).difference(stored)
        for trace in traces:
            if trace["message_id"] in missing:
                raise IntegrityError(
                    f"trace {trace['id']!r}: its message {trace['message_id']!r} is not stored;"
                    " store the message first"
                )
        known.remember(unknown, changes)

    async def _put_trace_alone(self, session: Session | None, trace: Document) -> None:
        client, known = self._client, self._known_traces
        changes = known.changes
        try:
            if known.unknown([trace["id"]]):
                # The driver adds no `_id` to a raw document, so that the server sets it.
                raw = RawBSONDocument(encode(trace))
                await client.traces.insert_one(raw, session=session)
            else:
                await self._put_in_place(session, trace, False)
        except DuplicateKeyError:
            if await self._has_another_trace(trace):
                await client.transaction(session, self._put_in_place, trace, True)
            else:
                await self._put_in_place(session, trace, False)
        known.remember([trace["id"]], changes)

    async def _has_another_trace(self, trace: Document) -> bool:
        """Return whether the trace's message has a trace with another id.

        Raises:
            IntegrityError: the trace's id belongs to another message.
        """
        client, message_id = self._client, trace["message_id"]
        stored = await client.find(client.traces, same_id_or_message(trace["id"], message_id))
        for other in stored:
            if other["message_id"] != message_id:
                raise IntegrityError(
                    f"trace {trace['id']!r} belongs to message {other['message_id']!r},"
                    f" it cannot become that of {message_id!r}"
                )
        return any(other["id"] != trace["id"] for other in stored)

    async def _put_in_place(
        self, session: Session | None, document: Document, replaces: bool
    ) -> None:
        trace_id, message_id = document["id"], document["message_id"]
        traces = self._client.traces
        if replaces:
            await traces.delete_many(other_traces(trace_id, message_id), session=session)
        # If the id belongs to another message, none matches, and the insertion fails.
        query = equal(id=trace_id, message_id=message_id)
        await traces.replace_one(query, document, upsert=True, session=session)

    async def store_turn(self, turn: Turn) -> None:
        """Store the records of a turn."""
        conversations, messages = self.known_conversations, self.known_messages
        changes = conversations.changes, messages.changes
        await self.write(turn.owners, self._put_turn, turn)
        if turn.conversation is not None:
            conversations.remember([turn.conversation["id"]], changes[0])
        messages.remember([message["id"] for message in turn.messages], changes[1])

    async def _put_turn(self, deadline: Deadline, turn: Turn) -> None:
        if turn.trace is not None and turn.writes == 1:
            await self._put_trace(deadline, turn.trace)
            return
        own = turn.conversation["id"] if turn.conversation else ""
        await self._require_conversations(deadline, turn.conversations, besides=own)
        if turn.trace is not None and not turn.brings_message_of_trace:
            await self._require_message(deadline, turn.trace)
        await self._client.write(deadline, self._put_turn_once, turn)

    async def _put_turn_once(self, session: Session | None, turn: Turn) -> None:
        replaces = turn.trace is not None
        if turn.trace is not None and session is None:
            # Without a transaction, the trace must not be refused after messages were stored.
            replaces = await self._has_another_trace(turn.trace)
        if turn.writes + replaces > 1:
            await self._client.transaction(session, self._put_parts, turn, replaces)
        else:
            await self._put_parts(session, turn, replaces)

    async def _put_parts(self, session: Session | None, turn: Turn, replaces: bool) -> None:
        if turn.conversation is not None:
            await self._put_conversation(session, turn.conversation)
        if turn.messages:
            await self._client.replace_all(self._client.messages, turn.messages, session)
        if turn.trace is not None:
            await self._put_in_place(session, turn.trace, replaces)
