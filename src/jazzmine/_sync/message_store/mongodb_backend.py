"""The hooks of the message store in a MongoDB database."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, TypeVar

from jazzmine._sync.clients.mongodb.client import MongoDBClient
from jazzmine._sync.clients.mongodb.types import Collection, Session
from jazzmine._sync.message_store import mongodb_steps as steps
from jazzmine._sync.message_store.backend import (
    Batch,
    MessageBackend,
    TraceKey,
)
from jazzmine._sync.message_store.building import built
from jazzmine._sync.message_store.mongodb_search import MongoDBSearch
from jazzmine._sync.message_store.searching import settle_search
from jazzmine._compat.sync_concurrency import Work
from jazzmine.backends.mongodb.documents import (
    Document,
    document_of,
    escaped,
    id_of,
    message_documents,
    stored_fields,
    to_row,
    to_rows,
)
from jazzmine.backends.mongodb.errors import is_duplicate
from jazzmine.backends.mongodb.indexes import CONVERSATIONS, INDEXES, MESSAGES, TRACES
from jazzmine.backends.mongodb.queries import (
    CONVERSATIONS_BY,
    FIRST_STORED,
    MESSAGES_BY,
    MESSAGES_OF_CONVERSATION,
    NEWEST_MESSAGES,
    NO_COPY,
    OLDEST_CONVERSATIONS,
    TOUCH,
    TRACES_FOUND,
    TRACES_OF_AGENT,
    TRACES_OF_CONVERSATION,
    Listing,
    among,
    count_by_conversation,
    equal,
    flag,
    older_than,
    owned_by,
    since,
    visible,
)
from jazzmine.backends.mongodb.trace_filters import filter_query, metadata_query
from jazzmine.backends.mongodb.usage import read_summaries, usage_pipeline
from jazzmine.config import MongoDBConfig
from jazzmine.errors import IntegrityError, NotFoundError
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.conversation_log import DeletedCounts, Refusal
from jazzmine.records.hook_arguments import (
    Append,
    ConversationPage,
    Fork,
    MessagePage,
    NewestPage,
    TracePage,
    Turn,
)
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.rows import Row
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary
from jazzmine.search.index import SearchState
from jazzmine.search.query import Clause, FoundPage, SearchScope
from jazzmine.search.ranking import Counts

__all__ = ["MongoDBBackend"]

T = TypeVar("T")

logger: logging.Logger = logging.getLogger(__name__)

# The maximum number of documents in a reply; the server also limits a reply to 16 MiB.
_DOCUMENTS_A_REPLY = 1_000
_IDS_A_COMMAND = 10_000
_MOST_KNOWN = 10_000

# The server refuses a sum of skip and limit beyond 64 bits.
_MOST = 2**32

_COLLECTIONS: dict[RecordKind, str] = {
    "conversations": CONVERSATIONS,
    "messages": MESSAGES,
    "traces": TRACES,
}
_FIELDS = [
    *stored_fields(CONVERSATIONS, Conversation),
    *stored_fields(MESSAGES, Message),
    *stored_fields(TRACES, TurnTrace),
]
_STANDALONE = (
    "MongoDB runs as a standalone server, without transactions: a call that fails may leave a part"
    " of its records, which `jazzmine doctor` finds; make it a replica set of one server"
    " (mongod --replSet rs0, then rs.initiate())"
)


class MongoDBBackend(MessageBackend):
    """The hooks of a message store in a MongoDB database."""

    system_name = "mongodb"

    def __init__(self, config: MongoDBConfig) -> None:
        self.client = MongoDBClient(config, INDEXES, _FIELDS)
        self._language = config.search_language
        self._search = MongoDBSearch(self.client, config.migration_timeout)
        # The conversations that were stored when this store last wrote to them.
        self._known: set[str] = set()

    def open(self) -> None:
        try:
            self.client.open()
            settle_search(self, self._language)
        except BaseException:
            self.client.close()
            raise
        if not self.client.has_transactions:
            logger.warning(_STANDALONE)

    def pending(self) -> list[str]:
        try:
            return self.client.pending()
        finally:
            self.client.close()

    def close(self) -> None:
        self.client.close()

    def ping(self) -> None:
        self.client.ping()

    # Writes

    def store(self, turn: Turn) -> None:
        conversation, messages, trace = turn
        given = steps.TurnDocuments(
            None if conversation is None else document_of(conversation),
            built(message_documents, messages, messages, self._search.analyser),
            None if trace is None else document_of(trace),
        )
        if not self._store_one(given):
            self._store_turn(given)

    def _store_turn(self, turn: steps.TurnDocuments) -> None:
        conversation, messages, trace = turn
        ids = owners = {message["conversation_id"] for message in messages}
        if conversation is not None:
            ids = ids | {conversation["id"]}
        if trace is not None:
            ids = ids | {trace["conversation_id"]}
        self._transaction(ids, steps.put_turn, turn, partial(self._remember, owners))

    def _remember(self, conversation_ids: set[str]) -> None:
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known |= conversation_ids

    def _store_one(self, turn: steps.TurnDocuments) -> bool:
        """Store a single record without a transaction; return False if there has to be one."""
        conversation, messages, trace = turn
        if (conversation is not None) + len(messages) + (trace is not None) > 1:
            return False
        if conversation is not None:
            self._put(CONVERSATIONS, equal(id=conversation["id"]), conversation)
        if messages:
            return self._store_message(messages[0], turn)
        if trace is not None:
            require = partial(steps.require_message, self.client.collections, None, trace)
            self.client.run(require)
            try:
                query = equal(id=trace["id"], message_id=trace["message_id"])
                self._put(TRACES, query, trace)
            except IntegrityError:
                return False  # perhaps the message has another trace, which is replaced
        return True

    def _store_message(self, message: Document, turn: steps.TurnDocuments) -> bool:
        owner, own = message["conversation_id"], steps.own_message(message)
        if owner not in self._known:
            return False
        self._put(MESSAGES, own, message)
        if owner not in self._known:
            # This store has deleted the conversation at the same time, perhaps before the message.
            try:
                self._store_turn(turn)
            except IntegrityError:
                messages = self.client.collections[MESSAGES]
                self.client.run(partial(messages.delete_one, own))
                raise
        return True

    def _put(self, name: str, query: Document, document: Document) -> None:
        put = partial(self.client.collections[name].replace_one, query, document, upsert=True)
        try:
            self.client.run(put)
        except IntegrityError:
            # Perhaps another call inserted it at the same time, and now it is replaced.
            self.client.run(put)

    def _transaction(
        self, ids: set[str], step: Work[T], given: Any, done: Callable[[], object] = lambda: None
    ) -> T:
        """Take a step that assumes that ids are new; if one is stored, the step that looks."""

        def attempt(known: bool, session: Session | None) -> T:
            return step(self.client.collections, session, given, known)

        try:
            return self.client.transaction(ids, partial(attempt, False), done)
        except IntegrityError as error:
            if not is_duplicate(error.__cause__):
                raise
        return self.client.transaction(ids, partial(attempt, True), done)

    def store_many(
        self,
        conversations: Sequence[Snapshot[Conversation]],
        messages: Sequence[Snapshot[Message]],
        traces: Sequence[Snapshot[TurnTrace]],
    ) -> None:
        for conversation in conversations:
            self.store(Turn(conversation))
        if messages:
            self.store(Turn(messages=messages))
        for trace in traces:
            self.store(Turn(trace=trace))

    def flag_message(self, message_id: str, flagged: bool) -> bool:
        messages, own = self.client.collections[MESSAGES], equal(id=message_id)
        result = self.client.run(lambda: messages.update_one(own, flag(flagged)))
        return bool(result.matched_count)

    def delete_message(self, message_id: str) -> bool:
        stored = self.client.collections

        def attempt(session: Session | None) -> bool:
            result = stored[MESSAGES].delete_one(equal(id=message_id), session=session)
            stored[TRACES].delete_many(equal(message_id=message_id), session=session)
            return bool(result.deleted_count)

        return self.client.transaction([message_id], attempt)

    def delete_conversation(self, conversation_id: str) -> bool:
        erased = self._erase_conversation(conversation_id, equal(id=conversation_id))
        return bool(erased.conversations)

    def create_conversation(self, conversation: Snapshot[Conversation]) -> Row | None:
        document, conversations = document_of(conversation), self.client.collections[CONVERSATIONS]
        own, insertion = equal(id=document["id"]), {"$setOnInsert": document}

        def create() -> Document:
            stored = None
            # Once, except that the test server returns nothing if another client inserts just then.
            while stored is None:
                stored = conversations.find_one_and_update(
                    own, insertion, upsert=True, return_document=True
                )
            return stored

        return to_row(self.client.run(create))

    def rewrite(
        self,
        kind: RecordKind,
        ids: Sequence[str],
        change: Callable[[Row], Snapshot[Any] | None],
    ) -> Sequence[str]:
        collection = self.client.collections[_COLLECTIONS[kind]]
        analyser = self._search.analyser if kind == "messages" else None

        def rewrite(own: Document) -> bool:
            while (stored := collection.find_one(own)) is not None:
                changed = change(to_row(deepcopy(stored)))
                if changed is None:
                    return False
                new = document_of(changed, analyser)
                fields = [name for name in new if new[name] != stored.get(name)]
                unchanged = {name: {"$eq": stored.get(name)} for name in fields}
                update = {"$set": {name: new[name] for name in fields}}
                if not fields:
                    return True
                if (collection.update_one({**own, **unchanged}, update)).matched_count:
                    return True
            return False

        return [one for one in ids if self.client.run(partial(rewrite, equal(id=one)))]

    def move_user(self, from_user_id: str, to_user_id: str) -> int:
        stored = self.client.collections

        def attempt(session: Session | None) -> int:
            return steps.move_user(stored, session, from_user_id, to_user_id)

        return self.client.transaction([], attempt)

    # A conversation as a log

    def append(self, given: Append) -> int | Refusal:
        analyser, conversation_id = self._search.analyser, given.conversation_id
        documents = built(message_documents, given.messages, given.messages, analyser)
        of_turn = None if given.trace is None else document_of(given.trace)
        expected, replaced = given.expected_last, given.replace_after
        appended = steps.AppendDocuments(conversation_id, documents, expected, of_turn, replaced)
        try:
            return self._transaction({conversation_id}, steps.append, appended)
        except steps.RefusedError as refused:
            return refused.refusal

    def pop(
        self, conversation_id: str, check: Callable[[Row], object], *, checks_all: bool = False
    ) -> Row | None:
        stored, owned = self.client.collections, equal(conversation_id=conversation_id)

        def attempt(session: Session | None) -> Row | None:
            self._touch(conversation_id, session)
            sort = NEWEST_MESSAGES.sort
            newest = stored[MESSAGES].find_one(owned, sort=sort, session=session)
            if newest is None:
                return None
            row = to_row(newest.copy())
            check(row)
            steps.remove(stored, session, [newest])
            return row

        return self.client.transaction([conversation_id], attempt)

    def rewind(self, conversation_id: str, after: str | None) -> int:
        stored, listing = self.client.collections, MESSAGES_OF_CONVERSATION

        def attempt(session: Session | None) -> int:
            self._touch(conversation_id, session)
            owned = listing.of(conversation_id)
            last = self._cursor(stored[MESSAGES], listing, owned, after, session)
            later = steps.tail(stored, session, conversation_id, last)
            return (steps.remove(stored, session, later)).messages

        return self.client.transaction([conversation_id], attempt)

    def _touch(self, conversation_id: str, session: Session | None) -> None:
        """Conflict with other transactions about a conversation."""
        own, conversations = equal(id=conversation_id), self.client.collections[CONVERSATIONS]
        conversations.update_one(own, TOUCH, session=session)

    def fork(self, fork: Fork) -> dict[str, str]:
        document = document_of(fork.copy)

        def attempt(session: Session | None) -> dict[str, str]:
            return steps.copy(self.client.collections, session, fork, document)

        return self.client.transaction([fork.conversation_id, document["id"]], attempt)

    # Erasure and retention

    def newest_sequence(self) -> dict[str, Any]:
        """Return the highest `_id` of each collection that has documents."""

        def newest(name: str) -> Document | None:
            place = {"_id": 1}
            return self.client.collections[name].find_one({}, place, sort=[("_id", -1)])

        found = {name: self.client.run(partial(newest, name)) for name in INDEXES}
        return {name: document["_id"] for name, document in found.items() if document}

    def erase(self, user_id: str, limit: int, newest: Any) -> DeletedCounts:
        own, stored = equal(user_id=user_id), self.client.collections

        def until(name: str) -> Document:
            bound = {"$lte": newest[name]} if name in newest else {"$in": []}
            return {**own, "_id": bound}

        def erase_messages(session: Session | None) -> DeletedCounts:
            documents = self._some(stored[MESSAGES], until(MESSAGES), limit, session)
            return steps.remove(stored, session, documents, own)

        def erase_traces(session: Session | None) -> DeletedCounts:
            documents = self._some(stored[TRACES], until(TRACES), limit, session)
            chosen = {**own, "_id": {"$in": [document["_id"] for document in documents]}}
            result = stored[TRACES].delete_many(chosen, session=session)
            return DeletedCounts(0, 0, result.deleted_count)

        conversations, first = stored[CONVERSATIONS], until(CONVERSATIONS)
        while documents := self._find(conversations, first, limit=1):
            chosen = {**own, "_id": documents[0]["_id"]}
            erased = self._erase_conversation(id_of(documents[0]), chosen, limit)
            if any(erased):
                return erased
        for step in (erase_messages, erase_traces):
            erased = self.client.transaction([], step)
            if any(erased):
                return erased
        return DeletedCounts()

    def _some(
        self, collection: Collection, query: Document, limit: int, session: Session | None
    ) -> list[Document]:
        return collection.find(query, {"id": 1}, limit=limit, session=session).to_list()

    def _erase_conversation(
        self, conversation_id: str, own: Document, limit: int = 0, before: int | None = None
    ) -> DeletedCounts:
        """Delete the oldest messages of a conversation, and the conversation with the last.

        Args:
            conversation_id: which conversation.
            own: the query for it, with what must hold for it.
            limit: how many messages at most; 0 is no limit.
            before: nothing is deleted if it has a message of this time or later, in ms.
        """
        stored = self.client.collections

        def attempt(session: Session | None) -> DeletedCounts:
            self._known.discard(conversation_id)
            if before is not None:
                used = since(conversation_id, before)
                if stored[MESSAGES].find_one(used, {"_id": 1}, session=session) is not None:
                    return DeletedCounts()
            return steps.erase_conversation(stored, session, conversation_id, own, limit)

        return self.client.transaction([conversation_id], attempt)

    def prune(self, conversations: Sequence[Row], before: int, limit: int) -> tuple[int, int]:
        conversation_id, body = conversations[0]
        unchanged = {"metadata": {"$eq": escaped(body.get("metadata"))}}
        own = {**older_than(before), **equal(id=conversation_id), **unchanged}
        pruned = self._erase_conversation(conversation_id, own, limit, before)
        is_done = pruned.conversations or not any(pruned)
        return pruned.conversations, int(is_done)

    def iter_old(
        self, before: int, size: int, user_id: str | None = None
    ) -> Iterator[Sequence[Row]]:
        listing, conversations = OLDEST_CONVERSATIONS, self.client.collections[CONVERSATIONS]
        old = query = {**older_than(before), **owned_by(user_id)}
        while documents := self._find(conversations, query, listing, size):
            query = listing.after(old, documents[-1])
            yield to_rows(documents)

    # Reads

    def get_conversation(self, conversation_id: str) -> Row | None:
        return self._one(CONVERSATIONS, equal(id=conversation_id))

    def get_message(self, message_id: str) -> Row | None:
        return self._one(MESSAGES, equal(id=message_id))

    def get_trace(self, by: TraceKey, key: str) -> Row | None:
        return self._one(TRACES, equal(**{by: key}))

    def _one(self, name: str, query: Document) -> Row | None:
        collection, fields = self.client.collections[name], self._search.projection
        document = self.client.run(lambda: collection.find_one(query, fields))
        return None if document is None else to_row(document)

    def get_messages(self, message_ids: Sequence[str]) -> Sequence[Row]:
        wanted, rows = list(dict.fromkeys(message_ids)), dict[str, Row]()
        for begin in range(0, len(wanted), _IDS_A_COMMAND):
            query = among("id", wanted[begin : begin + _IDS_A_COMMAND])
            documents = self._find(self.client.collections[MESSAGES], query)
            rows.update((row[0], row) for row in to_rows(documents))
        return [rows[message_id] for message_id in message_ids if message_id in rows]

    def list_conversations(self, page: ConversationPage) -> Sequence[Row]:
        by, owner, where, limit, after, user_id = page
        listing, condition = CONVERSATIONS_BY[by], {**metadata_query(where), **owned_by(user_id)}
        conversations = self.client.collections[CONVERSATIONS]
        return self._page(conversations, listing, owner, limit, after, condition)

    def list_messages(self, page: MessagePage) -> Sequence[Row]:
        by, owner, limit, after = page
        return self._page(
            self.client.collections[MESSAGES], MESSAGES_BY[by], owner, limit, after
        )

    def next_messages(self, conversation_id: str, cursor: Any, size: int) -> Batch:
        listing, messages = MESSAGES_OF_CONVERSATION, self.client.collections[MESSAGES]
        documents = self._find(messages, listing.of(conversation_id, cursor), listing, size)
        if documents:
            cursor = listing.cursor(documents[-1])
        return Batch(to_rows(documents), cursor)

    def list_newest(self, page: NewestPage) -> Sequence[Row]:
        owner, flagged, limit, after = page
        messages, condition = self.client.collections[MESSAGES], visible(owner, flagged)
        return self._page(messages, NEWEST_MESSAGES, owner, limit, after, condition)

    def count_messages(self, conversation_ids: Sequence[str]) -> dict[str, int]:
        query = among("conversation_id", conversation_ids)
        groups = self._aggregate(MESSAGES, query, count_by_conversation)
        return {group["_id"]: group["count"] for group in groups}

    def _aggregate(
        self, name: str, query: Document, pipeline: Callable[[Document], list[Document]]
    ) -> list[Document]:
        """Return the groups that a pipeline makes of the documents of a query."""
        collection = self.client.collections[name]

        def groups() -> list[Document]:
            cursor = collection.aggregate(pipeline(query), batchSize=_DOCUMENTS_A_REPLY)
            return cursor.to_list()

        return self.client.run(groups)

    def list_conversation_traces(self, conversation_id: str) -> Sequence[Row]:
        listing, traces = TRACES_OF_CONVERSATION, self.client.collections[TRACES]
        return self._page(traces, listing, conversation_id, None, None)

    def list_agent_traces(
        self, agent_id: str, limit: int, offset: int, user_id: str | None = None
    ) -> Sequence[Row]:
        listing, traces = TRACES_OF_AGENT, self.client.collections[TRACES]
        query = {**listing.of(agent_id), **owned_by(user_id)}
        return to_rows(self._find(traces, query, listing, limit, offset))

    def find_traces(self, page: TracePage) -> Sequence[Row]:
        condition, traces = filter_query(page.where), self.client.collections[TRACES]
        return self._page(traces, TRACES_FOUND, "", page.limit, page.after, condition)

    def summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        percentiles = self.client.has_percentiles
        query = {**filter_query(where), **NO_COPY}
        pipeline = partial(usage_pipeline, by=by, percentiles=percentiles)
        groups = self._aggregate(TRACES, query, pipeline)
        return read_summaries(groups, by, percentiles=percentiles)

    # Searches

    def search_state(self) -> SearchState | None:
        return self._search.state()

    def prepare_search(self) -> SearchState | None:
        return self._search.prepare()

    def make_search(self, language: str | None) -> None:
        self._search.make(language)

    def fill_search(self, size: int) -> tuple[int, int]:
        return self._search.fill(size)

    def count_unindexed(self) -> int:
        return self._search.count_unindexed()

    def count_found(self, clauses: Sequence[Clause], scope: SearchScope) -> Counts:
        return self._search.count(clauses, scope)

    def list_found(self, page: FoundPage) -> Sequence[Row]:
        return self._search.find(page)

    def iter_stored(self, kind: RecordKind, size: int) -> Iterator[Sequence[Row]]:
        collection, query = self.client.collections[_COLLECTIONS[kind]], Document()
        while documents := self._find(collection, query, FIRST_STORED, size):
            query = {"_id": {"$gt": documents[-1]["_id"]}}
            yield to_rows(documents)

    def _page(
        self,
        collection: Collection,
        listing: Listing,
        owner: str,
        limit: int | None,
        after: str | None,
        condition: Mapping[str, Any] | None = None,
    ) -> Sequence[Row]:
        """Return a page of the documents of an owner that fulfil a condition.

        Raises:
            NotFoundError: `after` does not belong to the owner.
        """

        def page() -> list[Document]:
            query = listing.of(owner)
            last = self._cursor(collection, listing, query, after)
            query = {**query, **(condition or {})}
            if last is not None:
                query = listing.after(query, last)
            return [] if limit == 0 else self._send(collection, query, listing, limit)

        return to_rows(self.client.run(page))

    def _cursor(
        self,
        collection: Collection,
        listing: Listing,
        query: Document,
        after: str | None,
        session: Session | None = None,
    ) -> Document | None:
        """Return the cursor of a document of a query; None if there is no `after`.

        Raises:
            NotFoundError: `after` does not belong to the query.
        """
        if after is None:
            return None
        last = collection.find_one(
            {**query, **equal(id=after)}, listing.projection, session=session
        )
        if last is None:
            raise NotFoundError(f"after={after!r} is no {listing.member}")
        return last

    def _find(
        self,
        collection: Collection,
        query: Document,
        listing: Listing | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Document]:
        """Return the documents of a query."""
        find = partial(self._send, collection, query, listing, limit, offset)
        return self.client.run(find)

    def _send(
        self,
        collection: Collection,
        query: Document,
        listing: Listing | None,
        limit: int | None,
        offset: int = 0,
    ) -> list[Document]:
        cursor = collection.find(
            query,
            self._search.projection,
            sort=None if listing is None else listing.sort,
            skip=min(offset, _MOST),
            limit=limit if limit is not None and limit < _MOST else 0,
            batch_size=min(limit or _DOCUMENTS_A_REPLY, _DOCUMENTS_A_REPLY),
        )
        return cursor.to_list()
