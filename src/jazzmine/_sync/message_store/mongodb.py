"""The message store in a MongoDB database."""

from __future__ import annotations

from collections.abc import Iterator, Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

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
    ALL_CONVERSATIONS,
    CONVERSATIONS_BY,
    FIRST_STORED,
    MESSAGES_BY,
    MESSAGES_OF_CONVERSATION,
    NEWEST_MESSAGES,
    TRACES_FOUND,
    TRACES_OF_AGENT,
    TRACES_OF_CONVERSATION,
    among,
    equal,
    visible,
)
from jazzmine.backends.mongodb.trace_filters import filter_query
from jazzmine.backends.mongodb.usage import read_summaries, usage_pipeline
from jazzmine.config import MongoDBConfig
from jazzmine.errors import NotFoundError
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.conversation_log import Erased
from jazzmine.records.log import AnyMessage
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import UNKNOWN_ID
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

if TYPE_CHECKING:
    from jazzmine._sync.message_store.mongodb_client import MongoDBClient
    from jazzmine._sync.message_store.mongodb_erasure import MongoDBErasure
    from jazzmine._sync.message_store.mongodb_fork import MongoDBForks
    from jazzmine._sync.message_store.mongodb_log import MongoDBLog
    from jazzmine._sync.message_store.mongodb_log_locks import LogLocks
    from jazzmine._sync.message_store.mongodb_types import Collection
    from jazzmine._sync.message_store.mongodb_writes import MongoDBWrites

__all__ = ["MongoDBMessageStore"]

_IDS_A_COMMAND = 10_000


class MongoDBMessageStore(MessageStore):
    """A message store in a MongoDB database, which any number of processes may share.

    On a replica set or a sharded cluster, a call that needs several commands sends them in one
    transaction. A standalone server has no transactions: the commands are sent in an order
    that stores no trace without its message and no message without its conversation, and a
    call that failed between two commands is completed by repeating it.
    """

    _system_name = "mongodb"

    _client: MongoDBClient
    _writes: MongoDBWrites
    _locks: LogLocks
    _log: MongoDBLog
    _forks: MongoDBForks
    _erasure: MongoDBErasure

    def __init__(self, config: MongoDBConfig) -> None:
        MongoDBConfig.require(config)
        super().__init__()
        self._config = config

    def _pending(self) -> list[str]:
        client = self._new_client()
        try:
            return client.pending()
        finally:
            client.close()

    def _open(self) -> None:
        client = self._new_client()
        from jazzmine._sync.message_store.mongodb_erasure import MongoDBErasure
        from jazzmine._sync.message_store.mongodb_fork import MongoDBForks
        from jazzmine._sync.message_store.mongodb_log import MongoDBLog
        from jazzmine._sync.message_store.mongodb_log_locks import LogLocks
        from jazzmine._sync.message_store.mongodb_writes import MongoDBWrites

        try:
            client.open()
        except BaseException:
            client.close()
            raise
        self._client = client
        self._writes = writes = MongoDBWrites(client)
        self._locks = locks = LogLocks(client)
        self._log = MongoDBLog(client, writes, locks, self._repairs)
        self._forks = MongoDBForks(client, writes, locks)
        self._erasure = MongoDBErasure(client, writes, locks)

    def _new_client(self) -> MongoDBClient:
        try:
            from jazzmine._sync.message_store.mongodb_client import MongoDBClient
        except ImportError as error:
            raise ImportError(
                "MongoDB needs its driver, PyMongo 4.13 or later:"
                f" pip install 'jazzmine[mongodb]' ({error})"
            ) from error
        return MongoDBClient(self._config)

    def _close(self) -> None:
        self._client.close()

    def _after_fork(self) -> None:
        self._client.after_fork()
        self._writes.after_fork()
        self._locks.after_fork()

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
        return self._read_conversations(self._client.read(self._client.find_page, *page))

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
            documents = self._client.read(self._client.find, self._client.messages, some)
            found.update((document.get("id") or UNKNOWN_ID, document) for document in documents)
        # Reading a document changes it, and `message_ids` may contain an id twice.
        stored = (found.get(message_id) for message_id in message_ids)
        return self._read_messages([document.copy() for document in stored if document])

    def _list_messages(
        self, by: MessageOwner, owner: str, limit: int | None, after: str | None
    ) -> list[Message]:
        page = (self._client.messages, MESSAGES_BY[by], owner, limit, after)
        return self._read_messages(self._client.read(self._client.find_page, *page))

    def _iter_batches(self, conversation_id: str, size: int) -> Iterator[list[Message]]:
        listing, last = MESSAGES_OF_CONVERSATION, None
        while True:
            query = listing.of(conversation_id, last)
            batch = (self._client.messages, query, listing, size)
            documents = self._client.read(self._client.find, *batch)
            if not documents:
                return
            # The cursor is kept: the message may be deleted before the next batch.
            last = listing.cursor(documents[-1])
            yield self._read_messages(documents)

    def _list_newest(
        self, conversation_id: str, calls: bool, limit: int, after: str | None
    ) -> list[Message]:
        page = (conversation_id, calls, limit, after)
        return self._read_messages(self._client.read(self._page_of_newest, *page))

    def _page_of_newest(
        self, conversation_id: str, calls: bool, limit: int, after: str | None
    ) -> list[Document]:
        query, listing = visible(conversation_id, calls), NEWEST_MESSAGES
        if after is not None:
            cursor = (self._client.messages, listing, conversation_id, after)
            query = listing.after(query, self._client.find_cursor(*cursor))
        return self._client.find(self._client.messages, query, listing, limit)

    def _delete_message(self, message_id: str) -> bool:
        return self._writes.delete_message(message_id)

    def _flag_message(self, message_id: str, flagged: bool) -> bool:
        return self._writes.flag_message(message_id, flagged)

    # A conversation as a log

    def _create_conversation(self, conversation: Snapshot[Conversation]) -> Conversation:
        return self._log.create(conversation)

    def _append(
        self,
        conversation_id: str,
        messages: Sequence[Snapshot[Message]],
        expected_last: str | AnyMessage | None,
    ) -> list[Message]:
        return self._log.append(conversation_id, messages, expected_last)

    def _pop(self, conversation_id: str) -> Message | None:
        return self._log.pop(conversation_id)

    def _rewind(self, conversation_id: str, after: str | None) -> int:
        return self._log.rewind(conversation_id, after)

    def _fork(
        self, conversation_id: str, until: str | None, copy: Snapshot[Conversation], salt: UUID
    ) -> dict[str, str]:
        return self._forks.fork(conversation_id, until, copy, salt)

    def _erase(self, user_id: str, limit: int) -> Erased:
        return self._erasure.erase(user_id, limit)

    def _iter_old(self, before: int, size: int) -> Iterator[list[str]]:
        for ids in self._erasure.iter_old(before, size):
            yield ids

    def _prune(self, ids: list[str], before: int, limit: int) -> tuple[int, int]:
        return self._erasure.prune(ids, before, limit)

    # Traces

    def _store_trace(self, trace: Snapshot[TurnTrace]) -> None:
        self._writes.store_trace(trace_document(trace))

    def _get_trace(self, by: TraceKey, key: str) -> TurnTrace | None:
        found = self._one(self._client.traces, equal(**{by: key}))
        return None if found is None else read_trace(found, self._repairs)

    def _list_conversation_traces(self, conversation_id: str) -> list[TurnTrace]:
        page = (self._client.traces, TRACES_OF_CONVERSATION, conversation_id, None, None)
        return self._read_traces(self._client.read(self._client.find_page, *page))

    def _list_agent_traces(self, agent_id: str, limit: int, offset: int) -> list[TurnTrace]:
        listing = TRACES_OF_AGENT
        newest = (self._client.traces, listing.of(agent_id), listing, limit, offset)
        return self._read_traces(self._client.read(self._client.find, *newest))

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
        return self._client.find(traces, query, listing, limit)

    def _summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        percentiles = self._client.has_percentiles
        pipeline = usage_pipeline(filter_query(where), by, percentiles=percentiles)
        groups = self._client.read(self._client.aggregate, self._client.traces, pipeline)
        return read_summaries(groups, by, percentiles=percentiles)

    # All records

    def _list_all_conversations(
        self, limit: int | None, after: str | None
    ) -> list[Conversation]:
        page = (self._client.conversations, ALL_CONVERSATIONS, "", limit, after)
        return self._read_conversations(self._client.read(self._client.find_page, *page))

    def _iter_stored(self, kind: RecordKind, size: int) -> Iterator[list[Any]]:
        readers: dict[RecordKind, Callable[[Sequence[Document]], list[Any]]] = {
            "conversations": self._read_conversations,
            "messages": self._read_messages,
            "traces": self._read_traces,
        }
        query: Document = {}
        while True:
            batch = (getattr(self._client, kind), query, FIRST_STORED, size)
            documents = self._client.read(self._client.find, *batch)
            if not documents:
                return
            query = {"_id": {"$gt": documents[-1]["_id"]}}
            yield readers[kind](documents)

    def _store_many(
        self,
        conversations: Sequence[Snapshot[Conversation]],
        messages: Sequence[Snapshot[Message]],
        traces: Sequence[Snapshot[TurnTrace]],
    ) -> None:
        if conversations:
            self._writes.store_conversations(list(map(conversation_document, conversations)))
        if messages:
            self._store_messages(messages)
        if traces:
            self._writes.store_traces(list(map(trace_document, traces)))

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
