"""What a write to MongoDB consists of: the commands, their order, and the rules they keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from jazzmine.errors import IntegrityError
from jazzmine.layouts.mongodb.documents import Document, Turn
from jazzmine.layouts.mongodb.queries import (
    among,
    equal,
    message_and_traces,
    other_traces,
    traces_in_the_way,
)
from jazzmine.layouts.mongodb.remembered import Overlaps, Remembered

if TYPE_CHECKING:
    from jazzmine._async.message_store.mongodb_server import MongoDBServer
    from jazzmine._compat.mongo_aio import Collection, Session, Work

__all__ = ["MongoDBWrites"]

T = TypeVar("T")

_CONVERSATIONS_REMEMBERED = 10_000
_IDS_A_COMMAND = 10_000


class MongoDBWrites:
    """The writes, of which each is all or nothing where the deployment has transactions.

    Elsewhere what others depend on is written first and deleted last: whenever a call ends
    half-way, there is no trace without its message and no message without its conversation.
    """

    def __init__(self, server: MongoDBServer) -> None:
        self._server = server
        self._known = Remembered(_CONVERSATIONS_REMEMBERED)
        self._overlaps = Overlaps()

    def move(self) -> None:
        """Begin anew in a forked process: a thread of the parent's may have held a lock."""
        self._known = Remembered(_CONVERSATIONS_REMEMBERED)
        self._overlaps = Overlaps()

    async def _write(self, under: Sequence[str], work: Work[None], *args: Any) -> None:
        deadline = self._server.deadline()
        await self._server.wait_until(deadline, self._overlaps.begin_writing, under)
        try:
            await self._server.run_until(deadline, work, *args)
        finally:
            self._overlaps.end_writing(under)

    async def _delete(self, deleted: str, work: Work[bool]) -> bool:
        """Delete, and return whether it was there."""
        server, overlaps, deadline = self._server, self._overlaps, self._server.deadline()
        await server.wait_until(deadline, overlaps.begin_deleting, deleted)
        try:
            await server.wait_until(deadline, overlaps.is_unwritten, deleted)
            found: bool = await server.run_until(deadline, server.atomically, work, deleted)
            return found
        finally:
            self._overlaps.end_deleting(deleted)

    # Conversations and messages

    async def store_conversation(self, document: Document) -> None:
        """Store a conversation."""
        changes = self._known.changes
        await self._server.run(self._put, None, self._server.conversations, document)
        self._known.remember([document["id"]], changes)

    async def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation, its messages and their traces."""
        self._known.forget(conversation_id)
        try:
            return await self._delete(conversation_id, self._remove_conversation)
        finally:
            self._known.forget(conversation_id)

    async def _remove_conversation(self, session: Session | None, conversation_id: str) -> bool:
        server, owned = self._server, equal(conversation_id=conversation_id)
        ids = await server.ids(server.messages, owned, session)
        for begin in range(0, len(ids), _IDS_A_COMMAND):
            some = among("message_id", ids[begin : begin + _IDS_A_COMMAND])
            await server.traces.delete_many(some, session=session)
        if ids:
            await server.messages.delete_many(owned, session=session)
        gone = await server.conversations.delete_one(equal(id=conversation_id), session=session)
        return bool(gone.deleted_count)

    async def store_messages(self, documents: Sequence[Document], owners: Sequence[str]) -> None:
        """Store messages.

        Args:
            documents: each id once.
            owners: all their conversations, one that a later duplicate replaced among them.
        """
        await self._write(owners, self._put_messages, documents, owners)

    async def _put_messages(self, documents: Sequence[Document], owners: Sequence[str]) -> None:
        await self._require_conversations(owners)
        if len(documents) == 1:
            await self._put(None, self._server.messages, documents[0])
        else:
            await self._server.atomically(self._put_all, documents)

    async def _put(
        self, session: Session | None, collection: Collection, document: Document
    ) -> None:
        query = equal(id=document["id"])
        await collection.replace_one(query, document, upsert=True, session=session)

    async def _put_all(self, session: Session | None, documents: Sequence[Document]) -> None:
        await self._server.replace_all(self._server.messages, documents, session)

    async def _require_conversations(self, owners: Sequence[str], besides: str = "") -> None:
        """Raise IntegrityError unless the conversations are stored."""
        changes = self._known.changes
        unknown = self._known.unknown(owner for owner in owners if owner != besides)
        if not unknown:
            return
        stored = await self._server.ids(self._server.conversations, among("id", unknown))
        for owner in unknown:
            if owner not in stored:
                raise IntegrityError(
                    f"the conversation {owner!r} of a message is not stored;"
                    " store the conversation first"
                )
        self._known.remember(stored, changes)

    async def delete_message(self, message_id: str) -> bool:
        """Delete a message and its trace."""
        return await self._delete(message_id, self._remove_message)

    async def _remove_message(self, session: Session | None, message_id: str) -> bool:
        await self._server.traces.delete_many(equal(message_id=message_id), session=session)
        gone = await self._server.messages.delete_one(equal(id=message_id), session=session)
        return bool(gone.deleted_count)

    # Traces and turns

    async def store_trace(self, document: Document) -> None:
        """Store a trace in place of any other of its message."""
        under = (document["message_id"], document["conversation_id"])
        await self._write(under, self._put_trace, document)

    async def _put_trace(self, document: Document) -> None:
        if await self._replaces_another(document):
            await self._server.atomically(self._put_in_place, document, True)
        else:
            await self._put_in_place(None, document, False)

    async def _replaces_another(self, document: Document) -> bool:
        """Return whether the trace's message has a trace with another id.

        Raises:
            IntegrityError: the message is not stored, or the trace belongs to another one.
        """
        trace_id, message_id, server = document["id"], document["message_id"], self._server
        question = message_and_traces(trace_id, message_id, server.traces.name)
        answers = await server.aggregated(server.messages, question)
        if not answers:
            raise IntegrityError(
                f"trace {trace_id!r}: its message {message_id!r} is not stored;"
                " store the message first"
            )
        return _has_another(answers[0]["traces"], document)

    async def _put_in_place(
        self, session: Session | None, document: Document, replaces: bool
    ) -> None:
        trace_id, message_id = document["id"], document["message_id"]
        traces = self._server.traces
        if replaces:
            await traces.delete_many(other_traces(trace_id, message_id), session=session)
        # Where the id belongs to another message, nothing is found, and none can be inserted.
        query = equal(id=trace_id, message_id=message_id)
        await traces.replace_one(query, document, upsert=True, session=session)

    async def store_turn(self, turn: Turn) -> None:
        """Store a turn."""
        changes = self._known.changes
        await self._write(turn.owners, self._put_turn, turn)
        if turn.conversation is not None:
            self._known.remember([turn.conversation["id"]], changes)

    async def _put_turn(self, turn: Turn) -> None:
        own = turn.conversation["id"] if turn.conversation else ""
        await self._require_conversations(turn.conversations, besides=own)
        replaces = turn.trace is not None and await self._turn_replaces_another(turn, turn.trace)
        if turn.writes + replaces > 1:
            await self._server.atomically(self._put_parts, turn, replaces)
        else:
            await self._put_parts(None, turn, replaces)

    async def _turn_replaces_another(self, turn: Turn, trace: Document) -> bool:
        if not turn.brings_message_of_trace:
            return await self._replaces_another(trace)
        if self._server.has_transactions:
            # An id that is taken undoes all, so that nobody need ask before.
            return True
        there = traces_in_the_way(trace["id"], trace["message_id"])
        return _has_another(await self._server.found(self._server.traces, there), trace)

    async def _put_parts(self, session: Session | None, turn: Turn, replaces: bool) -> None:
        if turn.conversation is not None:
            await self._put(session, self._server.conversations, turn.conversation)
        if turn.messages:
            await self._server.replace_all(self._server.messages, turn.messages, session)
        if turn.trace is not None:
            await self._put_in_place(session, turn.trace, replaces)


def _has_another(there: Sequence[Document], trace: Document) -> bool:
    for other in there:
        if other["message_id"] != trace["message_id"]:
            raise IntegrityError(
                f"trace {trace['id']!r} belongs to message {other['message_id']!r},"
                f" it cannot become that of {trace['message_id']!r}"
            )
    return any(other["id"] != trace["id"] for other in there)
