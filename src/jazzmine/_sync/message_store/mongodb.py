"""The message store in a MongoDB database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jazzmine._sync.message_store.base import MessageStore
from jazzmine.config import MongoDBConfig
from jazzmine.errors import IntegrityError, NotFoundError
from jazzmine.layouts.mongodb.documents import (
    Document,
    Turn,
    conversation_document,
    message_document,
    read_conversation,
    read_message,
    read_trace,
    trace_document,
)
from jazzmine.layouts.mongodb.queries import (
    CONVERSATIONS_OF_AGENT,
    CONVERSATIONS_OF_USER,
    MESSAGES_OF_CONVERSATION,
    MESSAGES_OF_USER,
    TRACES_FOUND,
    TRACES_OF_AGENT,
    TRACES_OF_CONVERSATION,
    VISIBLE_MESSAGES,
    among,
    equal,
    flag,
    message_and_traces,
    other_traces,
    traces_in_the_way,
    visible,
)
from jazzmine.layouts.mongodb.remembered import Remembered
from jazzmine.layouts.mongodb.trace_filters import traces_meant
from jazzmine.layouts.mongodb.usage import read_summaries, usage_pipeline
from jazzmine.records.base import Sealed
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

if TYPE_CHECKING:
    from jazzmine._sync.message_store.mongodb_server import MongoDBServer
    from jazzmine._compat.mongo_blocking import Collection, Session

__all__ = ["MongoDBMessageStore"]

_CONVERSATIONS_REMEMBERED = 10_000
_IDS_A_COMMAND = 10_000


class MongoDBMessageStore(MessageStore):
    """A message store in a MongoDB database, which any number of processes may share.

    What takes several commands is one transaction on a replica set or a sharded cluster. On a
    standalone server, which has none, the commands come in an order that leaves no trace
    without its message and no message without its conversation; a call that failed half-way
    is completed by repeating it.
    """

    _server: MongoDBServer

    def __init__(self, config: MongoDBConfig) -> None:
        super().__init__()
        self._config = config
        self._known = Remembered(_CONVERSATIONS_REMEMBERED)

    def _open(self) -> None:
        try:
            from jazzmine._sync.message_store.mongodb_server import MongoDBServer
        except ImportError as error:
            raise ImportError(
                "MongoDB needs its driver, PyMongo 4.13 or later:"
                f" pip install 'jazzmine[mongodb]' ({error})"
            ) from error
        server = MongoDBServer(self._config)
        try:
            server.open()
        except BaseException:
            server.close()
            raise
        self._server = server

    def _close(self) -> None:
        self._server.close()

    def _moved_in(self) -> None:
        self._server.move()

    def _ping(self) -> None:
        self._server.run(self._server.ping)

    # Conversations

    def _store_conversation(self, conversation: Sealed[Conversation]) -> None:
        changes = self._known.changes
        document = conversation_document(conversation)
        self._server.run(self._put, None, self._server.conversations, document)
        self._known.remember([conversation.record.id], changes)

    def _put(
        self, session: Session | None, collection: Collection, document: Document
    ) -> None:
        query = equal(id=document["id"])
        collection.replace_one(query, document, upsert=True, session=session)

    def _conversation(self, conversation_id: str) -> Conversation | None:
        found = self._one(self._server.conversations, equal(id=conversation_id))
        return None if found is None else read_conversation(found)

    def _conversations_of_user(
        self, user_id: str, limit: int | None, after: str | None
    ) -> list[Conversation]:
        page = (self._server.conversations, CONVERSATIONS_OF_USER, user_id, limit, after)
        return [
            read_conversation(found) for found in self._server.run(self._server.page, *page)
        ]

    def _conversations_of_agent(
        self, agent_id: str, limit: int | None, after: str | None
    ) -> list[Conversation]:
        page = (self._server.conversations, CONVERSATIONS_OF_AGENT, agent_id, limit, after)
        return [
            read_conversation(found) for found in self._server.run(self._server.page, *page)
        ]

    def _delete_conversation(self, conversation_id: str) -> bool:
        self._known.forget(conversation_id)
        deleted: bool = self._server.run(
            self._server.atomically, self._remove_conversation, conversation_id
        )
        self._known.forget(conversation_id)
        return deleted

    def _remove_conversation(self, session: Session | None, conversation_id: str) -> bool:
        server, owned = self._server, equal(conversation_id=conversation_id)
        ids = server.ids(server.messages, owned, session)
        for begin in range(0, len(ids), _IDS_A_COMMAND):
            some = among("message_id", ids[begin : begin + _IDS_A_COMMAND])
            server.traces.delete_many(some, session=session)
        if ids:
            server.messages.delete_many(owned, session=session)
        gone = server.conversations.delete_one(equal(id=conversation_id), session=session)
        return bool(gone.deleted_count)

    # Messages

    def _store_messages(self, messages: Sequence[Sealed[Message]]) -> None:
        documents = _documents(messages)
        self._server.run(self._put_messages, messages, documents)

    def _put_messages(
        self, messages: Sequence[Sealed[Message]], documents: Sequence[Document]
    ) -> None:
        self._require_conversations(messages)
        if len(documents) == 1:
            self._put(None, self._server.messages, documents[0])
        else:
            self._server.atomically(self._put_all, documents)

    def _put_all(self, session: Session | None, documents: Sequence[Document]) -> None:
        self._server.replace_all(self._server.messages, documents, session)

    def _require_conversations(
        self, messages: Sequence[Sealed[Message]], besides: str | None = None
    ) -> None:
        """Raise IntegrityError unless the messages' conversations are stored."""
        changes = self._known.changes
        unknown = self._known.unknown(message.record.conversation_id for message in messages)
        if besides in unknown:
            unknown.remove(besides)
        if not unknown:
            return
        stored = self._server.ids(self._server.conversations, among("id", unknown))
        for record in (message.record for message in messages):
            if record.conversation_id in unknown and record.conversation_id not in stored:
                raise IntegrityError(
                    f"message {record.id!r}: its conversation {record.conversation_id!r}"
                    " is not stored; store the conversation first"
                )
        self._known.remember(stored, changes)

    def _message(self, message_id: str) -> Message | None:
        found = self._one(self._server.messages, equal(id=message_id))
        return None if found is None else read_message(found)

    def _messages(self, message_ids: Sequence[str]) -> list[Message]:
        wanted = list(dict.fromkeys(message_ids))
        found: dict[str, Document] = {}
        for begin in range(0, len(wanted), _IDS_A_COMMAND):
            some = among("id", wanted[begin : begin + _IDS_A_COMMAND])
            documents = self._server.run(self._server.found, self._server.messages, some)
            found.update((document["id"], document) for document in documents)
        # A document is used up when it is read, and may be asked for twice.
        return [
            read_message(found[message_id].copy())
            for message_id in message_ids
            if message_id in found
        ]

    def _messages_of_conversation(
        self, conversation_id: str, limit: int | None, after: str | None
    ) -> list[Message]:
        page = (self._server.messages, MESSAGES_OF_CONVERSATION, conversation_id, limit, after)
        return [read_message(found) for found in self._server.run(self._server.page, *page)]

    def _messages_of_user(
        self, user_id: str, limit: int | None, after: str | None
    ) -> list[Message]:
        page = (self._server.messages, MESSAGES_OF_USER, user_id, limit, after)
        return [read_message(found) for found in self._server.run(self._server.page, *page)]

    def _batches(self, conversation_id: str, size: int) -> Iterator[list[Message]]:
        listing, last = MESSAGES_OF_CONVERSATION, None
        while True:
            query = listing.of(conversation_id, last)
            batch = (self._server.messages, query, listing, size)
            documents = self._server.run(self._server.found, *batch)
            if not documents:
                return
            # The place of the last one is known, even if it is deleted before the next batch.
            last = listing.position(documents[-1])
            yield [read_message(document) for document in documents]

    def _newest_visible(self, conversation_id: str, n: int) -> list[Message]:
        newest = (self._server.messages, visible(conversation_id), VISIBLE_MESSAGES, n)
        documents = self._server.run(self._server.found, *newest)
        return [read_message(document) for document in reversed(documents)]

    def _delete_message(self, message_id: str) -> bool:
        remove = self._remove_message
        deleted: bool = self._server.run(self._server.atomically, remove, message_id)
        return deleted

    def _remove_message(self, session: Session | None, message_id: str) -> bool:
        self._server.traces.delete_many(equal(message_id=message_id), session=session)
        gone = self._server.messages.delete_one(equal(id=message_id), session=session)
        return bool(gone.deleted_count)

    def _flag_message(self, message_id: str, flagged: bool) -> bool:
        return self._server.run(self._put_flag, message_id, flagged)

    def _put_flag(self, message_id: str, flagged: bool) -> bool:
        done = self._server.messages.update_one(equal(id=message_id), flag(flagged))
        return bool(done.matched_count)

    # Traces

    def _store_trace(self, trace: Sealed[TurnTrace]) -> None:
        self._server.run(self._put_trace, trace_document(trace))

    def _put_trace(self, document: Document) -> None:
        if self._replaces_another(document):
            self._server.atomically(self._put_turn_trace, document, True)
        else:
            self._put_turn_trace(None, document, False)

    def _replaces_another(self, document: Document, message_is_there: bool = False) -> bool:
        """Return whether the trace's message has a trace with another id.

        Raises:
            IntegrityError: the message is not stored, or the trace belongs to another one.
        """
        trace_id, message_id, server = document["id"], document["message_id"], self._server
        if message_is_there:
            there = server.found(server.traces, traces_in_the_way(trace_id, message_id))
        else:
            question = message_and_traces(trace_id, message_id, server.traces.name)
            answers = server.aggregated(server.messages, question)
            if not answers:
                raise IntegrityError(
                    f"trace {trace_id!r}: its message {message_id!r}"
                    " is not stored; store the message first"
                )
            there = answers[0]["traces"]
        for other in there:
            if other["message_id"] != message_id:
                raise IntegrityError(
                    f"trace {trace_id!r} belongs to message {other['message_id']!r},"
                    f" it cannot become that of {message_id!r}"
                )
        return any(other["id"] != trace_id for other in there)

    def _put_turn_trace(
        self, session: Session | None, document: Document, replaces: bool
    ) -> None:
        trace_id, message_id = document["id"], document["message_id"]
        traces = self._server.traces
        if replaces:
            traces.delete_many(other_traces(trace_id, message_id), session=session)
        # Where the id belongs to another message, nothing is found, and none can be inserted.
        query = equal(id=trace_id, message_id=message_id)
        traces.replace_one(query, document, upsert=True, session=session)

    def _trace(self, trace_id: str) -> TurnTrace | None:
        found = self._one(self._server.traces, equal(id=trace_id))
        return None if found is None else read_trace(found)

    def _trace_of_message(self, message_id: str) -> TurnTrace | None:
        found = self._one(self._server.traces, equal(message_id=message_id))
        return None if found is None else read_trace(found)

    def _traces_of_conversation(self, conversation_id: str) -> list[TurnTrace]:
        page = (self._server.traces, TRACES_OF_CONVERSATION, conversation_id, None, None)
        return [read_trace(found) for found in self._server.run(self._server.page, *page)]

    def _traces_of_agent(self, agent_id: str, limit: int, offset: int) -> list[TurnTrace]:
        listing = TRACES_OF_AGENT
        newest = (self._server.traces, listing.of(agent_id), listing, limit, offset)
        return [read_trace(found) for found in self._server.run(self._server.found, *newest)]

    def _store_turn(
        self,
        conversation: Sealed[Conversation] | None,
        messages: Sequence[Sealed[Message]],
        trace: Sealed[TurnTrace] | None,
    ) -> None:
        changes = self._known.changes
        turn = Turn(
            None if conversation is None else conversation_document(conversation),
            _documents(messages),
            None if trace is None else trace_document(trace),
        )
        self._server.run(self._put_turn, turn, messages)
        if conversation is not None:
            self._known.remember([conversation.record.id], changes)

    def _put_turn(self, turn: Turn, messages: Sequence[Sealed[Message]]) -> None:
        own = turn.conversation["id"] if turn.conversation else None
        self._require_conversations(messages, besides=own)
        replaces = False
        if turn.trace is not None:
            message_is_there = turn.brings_message_of_trace
            # In a transaction an id that is taken undoes all, so nobody need ask before.
            replaces = (message_is_there and self._server.has_transactions) or (
                self._replaces_another(turn.trace, message_is_there)
            )
        if turn.writes + replaces > 1:
            self._server.atomically(self._put_parts, turn, replaces)
        else:
            self._put_parts(None, turn, replaces)

    def _put_parts(self, session: Session | None, turn: Turn, replaces: bool) -> None:
        if turn.conversation is not None:
            self._put(session, self._server.conversations, turn.conversation)
        if turn.messages:
            self._server.replace_all(self._server.messages, turn.messages, session)
        if turn.trace is not None:
            self._put_turn_trace(session, turn.trace, replaces)

    def _find_traces(
        self, where: TraceFilter, limit: int, after: str | None
    ) -> list[TurnTrace]:
        found = self._server.run(self._page_of_traces, where, limit, after)
        return [read_trace(document) for document in found]

    def _page_of_traces(
        self, where: TraceFilter, limit: int, after: str | None
    ) -> list[Document]:
        query, listing, traces = traces_meant(where), TRACES_FOUND, self._server.traces
        if after is not None:
            last = traces.find_one(equal(id=after), listing.projection)
            if last is None:
                raise NotFoundError(f"after={after!r} is the id of no trace")
            query = listing.behind(query, last)
        return self._server.found(traces, query, listing, limit)

    def _summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        percentiles = self._server.has_percentiles
        pipeline = usage_pipeline(traces_meant(where), by, percentiles=percentiles)
        groups = self._server.run(self._server.aggregated, self._server.traces, pipeline)
        return read_summaries(groups, by, percentiles=percentiles)

    def _one(self, collection: Collection, query: Document) -> Document | None:
        return self._server.run(collection.find_one, query)


def _documents(messages: Sequence[Sealed[Message]]) -> list[Document]:
    """Return the messages' documents, of two with one id the later at the place of the first."""
    by_id = {sealed.record.id: sealed for sealed in messages}
    return [message_document(sealed) for sealed in by_id.values()]
