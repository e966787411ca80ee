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
    conversation_document,
    document_of,
    escaped,
    id_of,
    message_documents,
    stored_fields,
    to_row,
    to_rows,
    trace_document,
    unescaped,
)
from jazzmine.backends.mongodb.indexes import CONVERSATIONS, INDEXES, MESSAGES, TRACES
from jazzmine.backends.mongodb.queries import (
    CONVERSATIONS_BY,
    FIRST_STORED,
    MESSAGES_BY,
    MESSAGES_OF_CONVERSATION,
    NEWEST_MESSAGES,
    OLDEST_CONVERSATIONS,
    TOUCH,
    TRACES_FOUND,
    TRACES_OF_AGENT,
    TRACES_OF_CONVERSATION,
    Listing,
    among,
    both,
    count_by_conversation,
    equal,
    flag,
    older_than,
    seen,
    seen_among,
    since,
    visible,
)
from jazzmine.backends.mongodb.trace_filters import filter_query, metadata_query
from jazzmine.backends.mongodb.usage import read_summaries, usage_pipeline
from jazzmine.config import MongoDBConfig
from jazzmine.errors import NotFoundError
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.conversation_log import Erased, Refusal
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
from jazzmine.records.repair import UNKNOWN_ID
from jazzmine.records.rows import Row
from jazzmine.records.sealed import sealed_text
from jazzmine.records.seen import taken, unseen_conversation, unseen_message
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
_MOST_GUARDS = 10_000

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


class MongoDBBackend(MessageBackend):
    """The hooks of a message store in a MongoDB database."""

    system_name = "mongodb"

    def __init__(self, config: MongoDBConfig) -> None:
        self.client = MongoDBClient(config, INDEXES, _FIELDS)
        self._language = config.search_language
        self._search = MongoDBSearch(self.client, config.migration_timeout)
        # A message of each conversation, by the conversation's id: the server refuses the next
        # message of the conversation if this one is gone.
        self._guards: dict[str, Document] = {}

    def open(self) -> None:
        try:
            self.client.open()
            settle_search(self, self._language)
        except BaseException:
            self.client.close()
            raise
        if not self.client.has_transactions:
            logger.warning(
                "MongoDB runs as a standalone server, without transactions: a call that fails"
                " may be half done until it is repeated; make it a replica set of one server"
                " (mongod --replSet rs0, then rs.initiate())"
            )

    def pending(self) -> list[str]:
        try:
            return self.client.pending()
        finally:
            self.client.close()

    def close(self) -> None:
        self.client.close()

    def after_fork(self) -> None:
        self.client.after_fork()

    def ping(self) -> None:
        self.client.command("ping")

    @property
    def _stored(self) -> steps.Collections:
        return steps.Collections(*map(self.client.collection, (CONVERSATIONS, MESSAGES, TRACES)))

    def _require_seen(self, conversation_id: str) -> None:
        """Raise NotSeenError unless a conversation is the viewer's, if there is a viewer.

        Before a call waits for those before it: it must not wait for another user's.
        """
        if self.viewer is not None:
            query = {**equal(id=conversation_id), **seen(self.viewer)}
            if self._one(self._stored.conversations, query) is None:
                raise unseen_conversation(conversation_id)

    def _within(self, conversation_id: str | None = None) -> Document:
        """Return the query for what is in the viewer's conversations, or in one of them.

        Without a viewer, it matches everything.
        """
        if self.viewer is None:
            return {}
        query = seen(self.viewer)
        if conversation_id is not None:
            query.update(equal(id=conversation_id))
        found = self._stored.conversations.find(query, {"id": 1}).to_list()
        return {"conversation_id": {"$in": [document["id"] for document in found]}}

    def _seen_among(
        self, collection: Collection, query: Document, viewer: str
    ) -> list[Document]:
        """Return the messages or traces of a query that are in the viewer's conversations."""
        pipeline = seen_among(query, viewer)
        if self._search.projection:
            pipeline.append({"$project": self._search.projection})

        def find() -> list[Document]:
            cursor = collection.aggregate(pipeline, batchSize=_DOCUMENTS_A_REPLY)
            return cursor.to_list()

        return self.client.read(find)

    def _owner_of(self, message_id: str) -> Document:
        """Return the query for a message's conversation, if there is a viewer."""
        if self.viewer is None:
            return {}
        query = equal(id=message_id)
        found = self._seen_among(self._stored.messages, query, self.viewer)
        if not found:
            raise unseen_message(message_id)
        return {"conversation_id": {"$eq": found[0]["conversation_id"]}}

    def _require_storable(self, turn: steps.TurnDocuments, viewer: str) -> None:
        """Raise an error unless a turn is for conversations of the viewer."""
        own = set[str]() if turn.conversation is None else {turn.conversation["id"]}
        wanted = {*turn.owners} - own
        of_trace = None
        if turn.trace and turn.trace["message_id"] not in map(id_of, turn.messages):
            of_trace = turn.trace["conversation_id"]
        ids = wanted | own | ({of_trace} if of_trace else set())
        conversations, query = self._stored.conversations, among("id", list(ids))
        found = self.client.read(
            lambda: conversations.find(query, {"id": 1, "user_id": 1}).to_list()
        )
        owners = {id_of(document): document.get("user_id") or UNKNOWN_ID for document in found}
        for given in own:
            if owners.get(given, viewer) != viewer:
                raise taken("conversation", given)
        for owner in sorted(wanted):
            if owners.get(owner) != viewer:
                raise unseen_conversation(owner)
        if turn.trace and of_trace and owners.get(of_trace) != viewer:
            raise unseen_message(turn.trace["message_id"])

    # Writes

    def store(self, turn: Turn) -> None:
        conversation, messages, trace = turn
        owners = [message.record.conversation_id for message in messages]
        documents = built(message_documents, messages, messages, self._search.analyser)
        ids = list(owners)
        first = None if conversation is None else conversation_document(conversation)
        last = None if trace is None else trace_document(trace)
        if first is not None:
            ids.append(first["id"])
        if last is not None:
            ids.append(last["conversation_id"])
        given = steps.TurnDocuments(first, documents, last, owners, self.viewer)
        if self.viewer is not None:
            self._require_storable(given, self.viewer)
        is_single = first is None and last is None and len(documents) == 1
        with self.client.line(ids):
            if first is not None and not documents and last is None:
                self._put_conversations([first])
            elif not (is_single and self._put_guarded(documents[0])):
                self._put_turn(given)

    def _put_conversations(self, documents: Sequence[Document]) -> None:
        def attempt(session: Session | None) -> None:
            for document in documents:
                own = {**equal(id=document["id"]), **seen(self.viewer)}
                self._stored.conversations.replace_one(own, document, True, session=session)

        self.client.write(attempt)

    def _put_guarded(self, message: Document) -> bool:
        guard = self._guards.get(message["conversation_id"])
        if guard is None:
            return False
        stored = self._stored
        return self.client.write(
            lambda session: steps.put_guarded(stored, session, guard, message)
        )

    def _put_turn(self, turn: steps.TurnDocuments) -> None:
        replaces = False

        def attempt(session: Session | None) -> dict[str, Document]:
            # After a first attempt the message's other trace may be what was in the way.
            nonlocal replaces
            replaced, replaces = replaces, True
            return steps.put_turn(self._stored, session, turn, replaced)

        guards = self.client.transaction(attempt)
        if len(self._guards) > _MOST_GUARDS:
            self._guards.clear()
        self._guards.update(guards)

    def store_many(
        self,
        conversations: Sequence[Snapshot[Conversation]],
        messages: Sequence[Snapshot[Message]],
        traces: Sequence[Snapshot[TurnTrace]],
    ) -> None:
        if conversations:
            documents = list(map(conversation_document, conversations))
            with self.client.line([document["id"] for document in documents]):
                self._put_conversations(documents)
        if messages:
            self.store(Turn(messages=messages))
        for trace in traces:
            self.store(Turn(trace=trace))

    def flag_message(self, message_id: str, flagged: bool) -> bool:
        own = {**equal(id=message_id), **self._owner_of(message_id)}
        change = flag(flagged)

        def attempt(session: Session | None) -> bool:
            done = self._stored.messages.update_one(own, change, session=session)
            return bool(done.matched_count)

        with self.client.line([message_id]):
            return self.client.write(attempt)

    def delete_message(self, message_id: str) -> bool:
        owner = self._owner_of(message_id)

        def attempt(session: Session | None) -> bool:
            stored, of_message = self._stored, {**equal(message_id=message_id), **owner}
            stored.traces.delete_many(of_message, session=session)
            own = {**equal(id=message_id), **owner}
            gone = stored.messages.delete_one(own, session=session)
            return bool(gone.deleted_count)

        with self.client.line([message_id]):
            return self.client.transaction(attempt)

    def delete_conversation(self, conversation_id: str) -> bool:
        def attempt(session: Session | None) -> bool | None:
            stored, viewer = self._stored, self.viewer
            return steps.delete_conversation(stored, session, conversation_id, viewer)

        self._require_seen(conversation_id)
        with self.client.line([conversation_id]):
            self._retire(conversation_id)
            return self._deleted(conversation_id, attempt)

    def _deleted(self, conversation_id: str, delete: Work[T | None]) -> T:
        """Delete a conversation, or a part of it.

        Args:
            conversation_id: which conversation.
            delete: an attempt at it; it returns None if there are messages that are not retired.
        """
        while True:
            deleted = self.client.transaction(delete)
            if deleted is not None:
                return deleted
            self._retire(conversation_id)

    def _retire(self, conversation_id: str) -> None:
        if self.client.has_transactions:
            owned = equal(conversation_id=conversation_id)
            self.client.write(lambda session: steps.retire(self._stored, session, owned))

    def create_conversation(self, conversation: Snapshot[Conversation]) -> Row | None:
        document = conversation_document(conversation)
        own, insertion = equal(id=document["id"]), {"$setOnInsert": document}
        if self.viewer is not None:
            # The update would wait for a call that changes it, even if it is another user's.
            row = self._one(self._stored.conversations, own)
            if row is not None:
                return row

        def attempt(session: Session | None) -> Document:
            stored = None
            # Once, except that the test server returns nothing if another client inserts just then.
            while stored is None:
                stored = self._stored.conversations.find_one_and_update(
                    own, insertion, upsert=True, return_document=True, session=session
                )
            return stored

        with self.client.line([document["id"]]):
            return to_row(self.client.write(attempt))

    def edit_conversation(
        self, conversation_id: str, title: str | None, metadata: Mapping[str, Any]
    ) -> Row | None:
        own = {**equal(id=conversation_id), **seen(self.viewer)}

        def attempt(session: Session | None) -> Document | None:
            conversations = self._stored.conversations
            while True:
                before = conversations.find_one(own, session=session)
                if before is None or sealed_text(before.get("metadata")) is not None:
                    return before
                fields: Document = {} if title is None else {"title": title}
                if metadata:
                    merged = {**unescaped(before.get("metadata") or {}), **metadata}
                    kept = {k: merged[k] for k in merged if metadata.get(k, 0) is not None}
                    fields["metadata"] = escaped(kept)
                if not fields:
                    return before
                unchanged = {**own, "metadata": {"$eq": before.get("metadata")}}
                edited = conversations.find_one_and_update(
                    unchanged, {"$set": fields}, return_document=True, session=session
                )
                if edited is not None:
                    return edited

        self._require_seen(conversation_id)
        with self.client.line([conversation_id]):
            found = self.client.write(attempt)
            return None if found is None else to_row(found)

    def rewrite(
        self,
        kind: RecordKind,
        ids: Sequence[str],
        change: Callable[[Row], Snapshot[Any] | None],
    ) -> None:
        collection, within = self.client.collection(_COLLECTIONS[kind]), seen(self.viewer)
        if self.viewer is not None and kind != "conversations":
            found = self._seen_among(collection, among("id", ids), self.viewer)
            ids, within = list(map(id_of, found)), {}
        for record_id in ids:
            own = {**equal(id=record_id), **within}
            with self.client.line([record_id]):
                self.client.write(partial(self._rewrite, collection, own, change))

    def _rewrite(
        self,
        collection: Collection,
        own: Document,
        change: Callable[[Row], Snapshot[Any] | None],
        session: Session | None,
    ) -> None:
        while True:
            stored = collection.find_one(own, session=session)
            changed = None if stored is None else change(to_row(deepcopy(stored)))
            if stored is None or changed is None:
                return
            new = document_of(changed)
            fields = [name for name in new if new[name] != stored.get(name)]
            unchanged = {name: {"$eq": stored.get(name)} for name in fields}
            done = collection.update_one(
                {**own, **unchanged},
                {"$set": {name: new[name] for name in fields}},
                session=session,
            )
            if done.matched_count:
                return

    # A conversation as a log

    def append(self, given: Append) -> int | Refusal:
        analyser, conversation_id = self._search.analyser, given.conversation_id
        documents = built(message_documents, given.messages, given.messages, analyser)
        of_turn = None if given.trace is None else trace_document(given.trace)
        expected, replaced = given.expected_last, given.replace_after
        appended = steps.AppendDocuments(
            conversation_id, documents, expected, of_turn, replaced, self.viewer
        )
        looks_up = False

        def attempt(session: Session | None) -> int:
            # After a first attempt the ids may be stored.
            nonlocal looks_up
            looked_up, looks_up = looks_up, True
            return steps.append(self._stored, session, appended, looked_up)

        self._require_seen(conversation_id)
        with self.client.line([conversation_id]):
            try:
                return self.client.transaction(attempt)
            except steps.RefusedError as refused:
                return refused.refusal

    def pop(
        self, conversation_id: str, check: Callable[[Row], object], *, checks_all: bool = False
    ) -> Row | None:
        newest: Document | None = None

        def attempt(session: Session | None) -> Row | None:
            nonlocal newest
            stored, owned = self._stored, equal(conversation_id=conversation_id)
            self._begin(session, conversation_id)
            # Without transactions, an attempt goes on with what the one before has chosen.
            if session is not None or newest is None:
                sort = NEWEST_MESSAGES.sort
                newest = stored.messages.find_one(owned, sort=sort, session=session)
            if newest is None:
                return None
            row = to_row(newest.copy())
            check(row)
            steps.remove(stored, session, [newest])
            return row

        self._require_seen(conversation_id)
        with self.client.line([conversation_id]):
            return self.client.transaction(attempt)

    def rewind(self, conversation_id: str, after: str | None) -> int:
        later: list[Document] | None = None

        def attempt(session: Session | None) -> int:
            nonlocal later
            stored, last = self._stored, None
            self._begin(session, conversation_id)
            if session is not None or later is None:
                if after is not None:
                    last = self._find_cursor(
                        stored.messages, MESSAGES_OF_CONVERSATION, conversation_id, after, session
                    )
                later = steps.tail(stored, session, conversation_id, last)
            steps.remove(stored, session, later)
            return len(later)

        self._require_seen(conversation_id)
        with self.client.line([conversation_id]):
            return self.client.transaction(attempt)

    def _begin(self, session: Session | None, conversation_id: str) -> None:
        """Write to a conversation, if in a transaction; it has to be the viewer's still."""
        if session is not None:
            own = {**equal(id=conversation_id), **seen(self.viewer)}
            done = self._stored.conversations.update_one(own, TOUCH, session=session)
            if self.viewer is not None and not done.matched_count:
                raise unseen_conversation(conversation_id)

    def fork(self, fork: Fork) -> dict[str, str]:
        document, source = conversation_document(fork.copy), fork.conversation_id

        def attempt(session: Session | None) -> dict[str, str]:
            return steps.copy(self._stored, session, fork, document, self.viewer)

        self._require_seen(source)
        # The new id may be another user's, whose calls are not waited for.
        new = document["id"] if self.viewer is None else f"{document['id']}\0{self.viewer}"
        with self.client.line([source, new]):
            return self.client.transaction(attempt)

    # Erasure and retention

    def erase(self, user_id: str, limit: int) -> Erased:
        own, stored = equal(user_id=user_id), self._stored

        def erase_messages(session: Session | None) -> Erased:
            found = self._some(stored.messages, own, limit, session)
            return steps.remove(stored, session, found, own)

        def erase_traces(session: Session | None) -> Erased:
            found = self._some(stored.traces, own, limit, session)
            places = {**own, "_id": {"$in": [document["_id"] for document in found]}}
            gone = stored.traces.delete_many(places, session=session)
            return Erased(0, 0, gone.deleted_count)

        while found := self.client.read(
            lambda: self._some(stored.conversations, own, 1, None)
        ):
            place = {**own, "_id": found[0]["_id"]}
            erased = self._erase_conversation(id_of(found[0]), place, limit)
            if any(erased):
                return erased
        if self.viewer is not None:
            return Erased()
        with self.client.line([]):
            for step in (erase_messages, erase_traces):
                erased = self.client.transaction(step)
                if any(erased):
                    return erased
        return Erased()

    def _some(
        self, collection: Collection, query: Document, limit: int, session: Session | None
    ) -> list[Document]:
        return collection.find(query, {"id": 1}, limit=limit, session=session).to_list()

    def _erase_conversation(
        self, conversation_id: str, own: Document, limit: int, before: int | None = None
    ) -> Erased:
        def attempt(session: Session | None) -> Erased | None:
            stored = self._stored
            if before is not None:
                used = since(conversation_id, before)
                if stored.messages.find_one(used, {"_id": 1}, session=session) is not None:
                    return Erased()
            return steps.erase_conversation(stored, session, conversation_id, own, limit)

        with self.client.line([conversation_id]):
            return self._deleted(conversation_id, attempt)

    def prune(self, ids: Sequence[str], before: int, limit: int) -> tuple[int, int]:
        own = {**older_than(before), **equal(id=ids[0]), **seen(self.viewer)}
        pruned = self._erase_conversation(ids[0], own, limit, before)
        is_done = pruned.conversations or not any(pruned)
        return pruned.conversations, int(is_done)

    def iter_old(self, before: int, size: int) -> Iterator[list[str]]:
        old = {**older_than(before), **seen(self.viewer)}
        listing, query = OLDEST_CONVERSATIONS, old
        while found := self._find(self._stored.conversations, query, listing, size):
            query = listing.after(old, found[-1])
            yield [id_of(document) for document in found]

    # Reads

    def get_conversation(self, conversation_id: str) -> Row | None:
        query = {**equal(id=conversation_id), **seen(self.viewer)}
        return self._one(self._stored.conversations, query)

    def get_message(self, message_id: str) -> Row | None:
        return self._one_within(self._stored.messages, equal(id=message_id))

    def get_trace(self, by: TraceKey, key: str) -> Row | None:
        return self._one_within(self._stored.traces, equal(**{by: key}))

    def _one_within(self, collection: Collection, query: Document) -> Row | None:
        """Return a message or a trace, if the viewer sees it."""
        if self.viewer is None:
            return self._one(collection, query)
        found = self._seen_among(collection, query, self.viewer)
        return to_row(found[0]) if found else None

    def _one(self, collection: Collection, query: Document) -> Row | None:
        fields = self._search.projection
        found = self.client.read(lambda: collection.find_one(query, fields))
        return None if found is None else to_row(found)

    def get_messages(self, message_ids: Sequence[str]) -> Sequence[Row]:
        wanted, rows = list(dict.fromkeys(message_ids)), dict[str, Row]()
        for begin in range(0, len(wanted), _IDS_A_COMMAND):
            query = among("id", wanted[begin : begin + _IDS_A_COMMAND])
            if self.viewer is None:
                found = self._find(self._stored.messages, query)
            else:
                found = self._seen_among(self._stored.messages, query, self.viewer)
            rows.update((row[0], row) for row in to_rows(found))
        return [rows[message_id] for message_id in message_ids if message_id in rows]

    def list_conversations(self, page: ConversationPage) -> Sequence[Row]:
        by, owner, where, limit, after = page
        listing, condition = CONVERSATIONS_BY[by], metadata_query(where)
        conversations = self._stored.conversations
        return self._page(conversations, listing, owner, limit, after, condition)

    def list_messages(self, page: MessagePage) -> Sequence[Row]:
        by, owner, limit, after = page
        return self._page(self._stored.messages, MESSAGES_BY[by], owner, limit, after)

    def next_messages(self, conversation_id: str, cursor: Any, size: int) -> Batch:
        listing = MESSAGES_OF_CONVERSATION
        query = listing.of(conversation_id, cursor)

        def batch() -> list[Document]:
            limited = both(query, self._within(conversation_id))
            return self._send(self._stored.messages, limited, listing, size, 0)

        found = self.client.read(batch)
        if found:
            cursor = listing.cursor(found[-1])
        return Batch(to_rows(found), cursor)

    def list_newest(self, page: NewestPage) -> Sequence[Row]:
        owner, flagged, limit, after = page
        messages, condition = self._stored.messages, visible(owner, flagged)
        return self._page(messages, NEWEST_MESSAGES, owner, limit, after, condition)

    def count_messages(self, conversation_ids: Sequence[str]) -> dict[str, int]:
        def groups() -> list[Document]:
            query = both(among("conversation_id", conversation_ids), self._within())
            cursor = self._stored.messages.aggregate(count_by_conversation(query))
            return cursor.to_list()

        return {group["_id"]: group["count"] for group in self.client.read(groups)}

    def list_conversation_traces(self, conversation_id: str) -> Sequence[Row]:
        listing, traces = TRACES_OF_CONVERSATION, self._stored.traces
        return self._page(traces, listing, conversation_id, None, None)

    def list_agent_traces(self, agent_id: str, limit: int, offset: int) -> Sequence[Row]:
        listing, traces = TRACES_OF_AGENT, self._stored.traces

        def page() -> list[Document]:
            query = both(listing.of(agent_id), self._within())
            return self._send(traces, query, listing, limit, offset)

        return to_rows(self.client.read(page))

    def find_traces(self, page: TracePage) -> Sequence[Row]:
        condition, traces = filter_query(page.where), self._stored.traces
        return self._page(traces, TRACES_FOUND, "", page.limit, page.after, condition)

    def summarize(
        self, where: TraceFilter, by: UsageKey, conversation_ids: Sequence[str] | None = None
    ) -> list[UsageSummary]:
        percentiles = self.client.has_percentiles
        matching = filter_query(where)
        if conversation_ids is not None:
            matching = both(matching, among("conversation_id", conversation_ids))

        def groups() -> list[Document]:
            query = both(matching, self._within())
            pipeline = usage_pipeline(query, by, percentiles=percentiles)
            cursor = self._stored.traces.aggregate(pipeline, batchSize=_DOCUMENTS_A_REPLY)
            return cursor.to_list()

        return read_summaries(self.client.read(groups), by, percentiles=percentiles)

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
        return self._search.count(clauses, scope._replace(viewer=self.viewer))

    def list_found(self, page: FoundPage) -> Sequence[Row]:
        scope = page.scope._replace(viewer=self.viewer)
        return self._search.find(page._replace(scope=scope))

    def iter_stored(self, kind: RecordKind, size: int) -> Iterator[Sequence[Row]]:
        within = seen(self.viewer)
        if kind != "conversations":
            within = self.client.read(self._within)
        collection, query = self.client.collection(_COLLECTIONS[kind]), within
        while found := self._find(collection, query, FIRST_STORED, size):
            query = {**within, "_id": {"$gt": found[-1]["_id"]}}
            yield to_rows(found)

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
            within, last = self._within_listing(listing, owner), None
            if after is not None:
                last = self._find_cursor(collection, listing, owner, after, None, within)
            query = {**listing.of(owner), **(condition or {})}
            if last is not None:
                query = listing.after(query, last)
            query = both(query, within)
            return [] if limit == 0 else self._send(collection, query, listing, limit, 0)

        return to_rows(self.client.read(page))

    def _within_listing(self, listing: Listing, owner: str) -> Document:
        """Return the query for what the viewer sees of a listing."""
        if listing in CONVERSATIONS_BY.values():
            return seen(self.viewer)
        return self._within(owner if listing.owner == "conversation_id" else None)

    def _find_cursor(
        self,
        collection: Collection,
        listing: Listing,
        owner: str,
        after: str,
        session: Session | None,
        within: Document | None = None,
    ) -> Document:
        """Return the cursor of a document of an owner.

        Raises:
            NotFoundError: `after` does not belong to the owner.
        """
        query = both({**listing.of(owner), **equal(id=after)}, within or {})
        last = collection.find_one(query, listing.projection, session=session)
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
        """Return the documents that match a query."""
        return self.client.read(lambda: self._send(collection, query, listing, limit, offset))

    def _send(
        self,
        collection: Collection,
        query: Document,
        listing: Listing | None,
        limit: int | None,
        offset: int,
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
