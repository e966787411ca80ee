"""The message store in a MongoDB database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jazzmine._sync.message_store.base import MessageStore
from jazzmine._sync.message_store.hooks import ConversationOwner, MessageOwner, TraceKey
from jazzmine.backends.mongodb.documents import (
    Document,
    conversation_document,
    message_documents,
    read_conversation,
    read_message,
    read_trace,
    stored_id,
    trace_document,
    turn_documents,
)
from jazzmine.backends.mongodb.queries import (
    CONVERSATIONS_BY,
    MESSAGES_BY,
    MESSAGES_OF_CONVERSATION,
    TRACES_FOUND,
    TRACES_OF_AGENT,
    TRACES_OF_CONVERSATION,
    VISIBLE_MESSAGES,
    among,
    equal,
    visible,
)
from jazzmine.backends.mongodb.trace_filters import filter_query
from jazzmine.backends.mongodb.usage import read_summaries, usage_pipeline
from jazzmine.config import MongoDBConfig
from jazzmine.errors import NotFoundError
from jazzmine.records.base import Snapshot
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import UNKNOWN_ID
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

if TYPE_CHECKING:
    from jazzmine._sync.message_store.mongodb_client import MongoDBClient
    from jazzmine._sync.message_store.mongodb_writes import MongoDBWrites
    from jazzmine._compat.sync_mongodb import Collection

__all__ = ["MongoDBMessageStore"]

_IDS_A_COMMAND = 10_000


class MongoDBMessageStore(MessageStore):
    """A message store in a MongoDB database, which any number of processes may share.

    What takes several commands is one transaction on a replica set or a sharded cluster. On a
    standalone server, which has none, the commands come in an order that leaves no trace
    without its message and no message without its conversation; a call that failed half-way
    is completed by repeating it.
    """

    _client: MongoDBClient
    _writes: MongoDBWrites

    def __init__(self, config: MongoDBConfig) -> None:
        super().__init__()
        self._config = config

    def _open(self) -> None:
        try:
            from jazzmine._sync.message_store.mongodb_client import MongoDBClient
            from jazzmine._sync.message_store.mongodb_writes import MongoDBWrites
        except ImportError as error:
            raise ImportError(
                "MongoDB needs its driver, PyMongo 4.13 or later:"
                f" pip install 'jazzmine[mongodb]' ({error})"
            ) from error
        client = MongoDBClient(self._config)
        try:
            client.open()
        except BaseException:
            client.close()
            raise
        self._client = client
        self._writes = MongoDBWrites(client)

    def _close(self) -> None:
        self._client.close()

    def _after_fork(self) -> None:
        self._client.after_fork()
        self._writes.after_fork()

    def _ping(self) -> None:
        self._client.read(self._client.ping)

    # Conversations

    def _store_conversation(self, conversation: Snapshot[Conversation]) -> None:
        self._writes.store_conversation(conversation_document(conversation))

    def _get_conversation(self, conversation_id: str) -> Conversation | None:
        found = self._one(self._client.conversations, equal(id=conversation_id))
        return None if found is None else read_conversation(found, self._repairs)

    def _list_conversations(
        self, by: ConversationOwner, owner: str, limit: int | None, after: str | None
    ) -> list[Conversation]:
        page = (self._client.conversations, CONVERSATIONS_BY[by], owner, limit, after)
        return self._read_conversations(self._client.read(self._client.page, *page))

    def _delete_conversation(self, conversation_id: str) -> bool:
        return self._writes.delete_conversation(conversation_id)

    # Messages

    def _store_messages(self, messages: Sequence[Snapshot[Message]]) -> None:
        owners = [snapshot.record.conversation_id for snapshot in messages]
        self._writes.store_messages(message_documents(messages), owners)

    def _get_message(self, message_id: str) -> Message | None:
        found = self._one(self._client.messages, equal(id=message_id))
        return None if found is None else read_message(found, self._repairs)

    def _get_messages(self, message_ids: Sequence[str]) -> list[Message]:
        wanted = list(dict.fromkeys(message_ids))
        found: dict[str, Document] = {}
        for begin in range(0, len(wanted), _IDS_A_COMMAND):
            some = among("id", wanted[begin : begin + _IDS_A_COMMAND])
            documents = self._client.read(self._client.found, self._client.messages, some)
            found.update((document.get("id") or UNKNOWN_ID, document) for document in documents)
        # A document is used up when it is read, and may be asked for twice.
        there = (found.get(message_id) for message_id in message_ids)
        return self._read_messages([document.copy() for document in there if document])

    def _list_messages(
        self, by: MessageOwner, owner: str, limit: int | None, after: str | None
    ) -> list[Message]:
        page = (self._client.messages, MESSAGES_BY[by], owner, limit, after)
        return self._read_messages(self._client.read(self._client.page, *page))

    def _iter_batches(self, conversation_id: str, size: int) -> Iterator[list[Message]]:
        listing, last = MESSAGES_OF_CONVERSATION, None
        while True:
            query = listing.of(conversation_id, last)
            batch = (self._client.messages, query, listing, size)
            documents = self._client.read(self._client.found, *batch)
            if not documents:
                return
            # The place of the last one is known, even if it is deleted before the next batch.
            last = listing.cursor(documents[-1])
            yield self._read_messages(documents)

    def _list_newest_visible(self, conversation_id: str, n: int) -> list[Message]:
        newest = (self._client.messages, visible(conversation_id), VISIBLE_MESSAGES, n)
        documents = self._client.read(self._client.found, *newest)
        return self._read_messages(documents[::-1])

    def _delete_message(self, message_id: str) -> bool:
        return self._writes.delete_message(message_id)

    def _flag_message(self, message_id: str, flagged: bool) -> bool:
        return self._writes.flag_message(message_id, flagged)

    # Traces

    def _store_trace(self, trace: Snapshot[TurnTrace]) -> None:
        self._writes.store_trace(trace_document(trace))

    def _get_trace(self, by: TraceKey, key: str) -> TurnTrace | None:
        found = self._one(self._client.traces, equal(**{by: key}))
        return None if found is None else read_trace(found, self._repairs)

    def _list_conversation_traces(self, conversation_id: str) -> list[TurnTrace]:
        page = (self._client.traces, TRACES_OF_CONVERSATION, conversation_id, None, None)
        return self._read_traces(self._client.read(self._client.page, *page))

    def _list_agent_traces(self, agent_id: str, limit: int, offset: int) -> list[TurnTrace]:
        listing = TRACES_OF_AGENT
        newest = (self._client.traces, listing.of(agent_id), listing, limit, offset)
        return self._read_traces(self._client.read(self._client.found, *newest))

    def _store_turn(
        self,
        conversation: Snapshot[Conversation] | None,
        messages: Sequence[Snapshot[Message]],
        trace: Snapshot[TurnTrace] | None,
    ) -> None:
        self._writes.store_turn(turn_documents(conversation, messages, trace))

    def _find_traces(
        self, where: TraceFilter, limit: int, after: str | None
    ) -> list[TurnTrace]:
        found = self._client.read(self._page_of_traces, where, limit, after)
        return self._read_traces(found)

    def _page_of_traces(
        self, where: TraceFilter, limit: int, after: str | None
    ) -> list[Document]:
        query, listing, traces = filter_query(where), TRACES_FOUND, self._client.traces
        if after is not None:
            last = traces.find_one(equal(id=after), listing.projection)
            if last is None:
                raise NotFoundError(f"after={after!r} is the id of no trace")
            query = listing.after(query, last)
        return self._client.found(traces, query, listing, limit)

    def _summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        percentiles = self._client.has_percentiles
        pipeline = usage_pipeline(filter_query(where), by, percentiles=percentiles)
        groups = self._client.read(self._client.aggregated, self._client.traces, pipeline)
        return read_summaries(groups, by, percentiles=percentiles)

    def _read_conversations(self, documents: Sequence[Document]) -> list[Conversation]:
        repairs = self._repairs
        return repairs.listing(documents, lambda one: read_conversation(one, repairs), stored_id)

    def _read_messages(self, documents: Sequence[Document]) -> list[Message]:
        repairs = self._repairs
        return repairs.listing(documents, lambda one: read_message(one, repairs), stored_id)

    def _read_traces(self, documents: Sequence[Document]) -> list[TurnTrace]:
        repairs = self._repairs
        return repairs.listing(documents, lambda one: read_trace(one, repairs), stored_id)

    def _one(self, collection: Collection, query: Document) -> Document | None:
        return self._client.read(collection.find_one, query)
