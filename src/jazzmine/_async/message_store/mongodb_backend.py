"""The hooks of the message store in a MongoDB database."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, TypeVar

from jazzmine._async.clients.mongodb.client import MongoDBClient
from jazzmine._async.clients.mongodb.types import Collection, Session
from jazzmine._async.message_store import mongodb_steps as steps
from jazzmine._async.message_store.backend import (
    Batch,
    MessageBackend,
    TraceKey,
)
from jazzmine._async.message_store.building import built
from jazzmine._async.message_store.mongodb_search import MongoDBSearch
from jazzmine._async.message_store.searching import settle_search
from jazzmine.backends.mongodb.documents import (
    Document,
    document_of,
    id_of,
    message_documents,
    stored_fields,
    to_row,
    to_rows,
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
from jazzmine.records.repair import UNKNOWN_ID
from jazzmine.records.rows import Row, row_id
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

    async def open(self) -> None:
        try:
            await self.client.open()
            await settle_search(self, self._language)
        except BaseException:
            await self.client.close()
            raise
        if not self.client.has_transactions:
            logger.warning(
                "MongoDB runs as a standalone server, without transactions: a call that fails"
                " may be half done until it is repeated; make it a replica set of one server"
                " (mongod --replSet rs0, then rs.initiate())"
            )

    async def pending(self) -> list[str]:
        try:
            return await self.client.pending()
        finally:
            await self.client.close()

    async def close(self) -> None:
        await self.client.close()

    def after_fork(self) -> None:
        self.client.after_fork()

    async def ping(self) -> None:
        await self.client.command("ping")

    async def _require_seen(self, conversation_id: str) -> None:
        """Raise NotSeenError unless a conversation is the viewer's, if there is a viewer.

        Before a call waits for those before it: it must not wait for another user's.
        """
        if self.viewer is not None and await self.get_conversation(conversation_id) is None:
            raise unseen_conversation(conversation_id)

    async def _within(self, collection: Collection, query: Document) -> Document:
        """Return the condition for what the viewer sees of the documents of a query."""
        if self.viewer is None:
            return {}
        own = seen(self.viewer)
        if collection.name == CONVERSATIONS:
            return own
        if "conversation_id" in query:
            own["id"] = query["conversation_id"]
        conversations = await self.client.collections[CONVERSATIONS].find(own, {"id": 1}).to_list()
        return {"conversation_id": {"$in": [document["id"] for document in conversations]}}

    async def _seen_among(self, collection: Collection, query: Document) -> list[Document]:
        """Return the few documents of a query that the viewer sees."""
        if self.viewer is None or collection.name == CONVERSATIONS:
            return await self._find(collection, query)
        pipeline = seen_among(query, self.viewer)
        if self._search.projection:
            pipeline.append({"$project": self._search.projection})

        async def find() -> list[Document]:
            cursor = await collection.aggregate(pipeline, batchSize=_DOCUMENTS_A_REPLY)
            return await cursor.to_list()

        return await self.client.read(find)

    async def _owner_of(self, message_id: str) -> Document:
        """Return the query for a message's conversation, if there is a viewer."""
        if self.viewer is None:
            return {}
        documents = await self._seen_among(self.client.collections[MESSAGES], equal(id=message_id))
        if not documents:
            raise unseen_message(message_id)
        return equal(conversation_id=documents[0]["conversation_id"])

    async def _require_storable(
        self, turn: steps.TurnDocuments, ids: set[str], viewer: str
    ) -> None:
        """Raise an error unless a turn is for conversations of the viewer."""
        fields = {"id": 1, "user_id": 1}
        conversations, query = self.client.collections[CONVERSATIONS], among("id", list(ids))
        documents = await self.client.read(lambda: conversations.find(query, fields).to_list())
        owners = {id_of(document): document.get("user_id") or UNKNOWN_ID for document in documents}
        own = None if turn.conversation is None else turn.conversation["id"]
        if own is not None and owners.setdefault(own, viewer) != viewer:
            raise taken("conversation", own)
        for owner in sorted(turn.owners):
            if owners.get(owner) != viewer:
                raise unseen_conversation(owner)
        trace = turn.trace
        if trace is None or trace["message_id"] in map(id_of, turn.messages):
            return
        if owners.get(trace["conversation_id"]) != viewer:
            raise unseen_message(trace["message_id"])

    # Writes

    async def store(self, turn: Turn) -> None:
        conversation, messages, trace = turn
        given = steps.TurnDocuments(
            None if conversation is None else document_of(conversation),
            await built(message_documents, messages, messages, self._search.analyser),
            None if trace is None else document_of(trace),
            {message.record.conversation_id for message in messages},
            self.viewer,
        )
        ids = set(given.owners)
        if conversation is not None:
            ids.add(conversation.record.id)
        if trace is not None:
            ids.add(trace.record.conversation_id)
        if self.viewer is not None:
            await self._require_storable(given, ids, self.viewer)
        replaces = False

        async def put(session: Session | None) -> dict[str, Document]:
            # After a first attempt the message's other trace may be what was in the way.
            nonlocal replaces
            replaced, replaces = replaces, True
            return await steps.put_turn(self.client.collections, session, given, replaced)

        async def attempt(session: Session | None) -> None:
            if await steps.put_alone(self.client.collections, session, given, self._guards):
                return
            guards = await self.client.commit(session, put)
            if len(self._guards) > _MOST_GUARDS:
                self._guards.clear()
            self._guards.update(guards)

        await self.client.write(ids, attempt)

    async def store_many(
        self,
        conversations: Sequence[Snapshot[Conversation]],
        messages: Sequence[Snapshot[Message]],
        traces: Sequence[Snapshot[TurnTrace]],
    ) -> None:
        for conversation in conversations:
            await self.store(Turn(conversation))
        if messages:
            await self.store(Turn(messages=messages))
        for trace in traces:
            await self.store(Turn(trace=trace))

    async def flag_message(self, message_id: str, flagged: bool) -> bool:
        own = {**equal(id=message_id), **await self._owner_of(message_id)}

        async def attempt(session: Session | None) -> bool:
            result = await self.client.collections[MESSAGES].update_one(
                own, flag(flagged), session=session
            )
            return bool(result.matched_count)

        return await self.client.write([message_id], attempt)

    async def delete_message(self, message_id: str) -> bool:
        owner = await self._owner_of(message_id)

        async def attempt(session: Session | None) -> bool:
            stored, of_message = self.client.collections, {**equal(message_id=message_id), **owner}
            await stored[TRACES].delete_many(of_message, session=session)
            own = {**equal(id=message_id), **owner}
            result = await stored[MESSAGES].delete_one(own, session=session)
            return bool(result.deleted_count)

        return await self.client.transaction([message_id], attempt)

    async def delete_conversation(self, conversation_id: str) -> bool:
        await self._require_seen(conversation_id)
        own = {**equal(id=conversation_id), **seen(self.viewer)}
        return bool((await self._erase_conversation(conversation_id, own)).conversations)

    async def create_conversation(self, conversation: Snapshot[Conversation]) -> Row | None:
        document = document_of(conversation)
        own, insertion = equal(id=document["id"]), {"$setOnInsert": document}
        if self.viewer is not None:
            # The update would wait for a call that changes it, even if it is another user's.
            conversations = self.client.collections[CONVERSATIONS]
            stored = await self.client.read(lambda: conversations.find_one(own))
            if stored is not None:
                return to_row(stored)

        async def attempt(session: Session | None) -> Document:
            stored = None
            # Once, except that the test server returns nothing if another client inserts just then.
            while stored is None:
                stored = await self.client.collections[CONVERSATIONS].find_one_and_update(
                    own, insertion, upsert=True, return_document=True, session=session
                )
            return stored

        return to_row(await self.client.write([document["id"]], attempt))

    async def move_user(self, from_user_id: str, to_user_id: str) -> int:
        raise NotImplementedError

    async def rewrite(
        self,
        kind: RecordKind,
        ids: Sequence[str],
        change: Callable[[Row], Snapshot[Any] | None],
    ) -> Sequence[str]:
        collection, within = self.client.collections[_COLLECTIONS[kind]], seen(self.viewer)
        if self.viewer is not None and kind != "conversations":
            documents = await self._seen_among(collection, among("id", ids))
            ids, within = list(map(id_of, documents)), {}
        written = []
        for record_id in ids:
            own = {**equal(id=record_id), **within}
            if await self.client.write(
                [record_id], partial(self._rewrite, collection, own, change)
            ):
                written.append(record_id)
        return written

    async def _rewrite(
        self,
        collection: Collection,
        own: Document,
        change: Callable[[Row], Snapshot[Any] | None],
        session: Session | None,
    ) -> bool:
        while True:
            stored = await collection.find_one(own, session=session)
            changed = None if stored is None else change(to_row(deepcopy(stored)))
            if stored is None or changed is None:
                return False
            new = document_of(changed)
            fields = [name for name in new if new[name] != stored.get(name)]
            unchanged = {name: {"$eq": stored.get(name)} for name in fields}
            result = await collection.update_one(
                {**own, **unchanged},
                {"$set": {name: new[name] for name in fields}},
                session=session,
            )
            if result.matched_count:
                return True

    # A conversation as a log

    async def append(self, given: Append) -> int | Refusal:
        analyser, conversation_id = self._search.analyser, given.conversation_id
        documents = await built(message_documents, given.messages, given.messages, analyser)
        of_turn = None if given.trace is None else document_of(given.trace)
        expected, replaced = given.expected_last, given.replace_after
        appended = steps.AppendDocuments(
            conversation_id, documents, expected, of_turn, replaced, self.viewer
        )
        looks_up = False

        async def attempt(session: Session | None) -> int:
            # After a first attempt the ids may be stored.
            nonlocal looks_up
            looked_up, looks_up = looks_up, True
            return await steps.append(self.client.collections, session, appended, looked_up)

        await self._require_seen(conversation_id)
        try:
            return await self.client.transaction([conversation_id], attempt)
        except steps.RefusedError as refused:
            return refused.refusal

    async def pop(
        self, conversation_id: str, check: Callable[[Row], object], *, checks_all: bool = False
    ) -> Row | None:
        newest: Document | None = None

        async def attempt(session: Session | None) -> Row | None:
            nonlocal newest
            stored, owned = self.client.collections, equal(conversation_id=conversation_id)
            await self._begin(session, conversation_id)
            # Without transactions, an attempt goes on with what the one before has chosen.
            if session is not None or newest is None:
                sort = NEWEST_MESSAGES.sort
                newest = await stored[MESSAGES].find_one(owned, sort=sort, session=session)
            if newest is None:
                return None
            row = to_row(newest.copy())
            check(row)
            await steps.remove(stored, session, [newest])
            return row

        await self._require_seen(conversation_id)
        return await self.client.transaction([conversation_id], attempt)

    async def rewind(self, conversation_id: str, after: str | None) -> int:
        later: list[Document] | None = None

        async def attempt(session: Session | None) -> int:
            nonlocal later
            stored, listing = self.client.collections, MESSAGES_OF_CONVERSATION
            await self._begin(session, conversation_id)
            if session is not None or later is None:
                owned = listing.of(conversation_id)
                last = await self._cursor(stored[MESSAGES], listing, owned, after, session)
                later = await steps.tail(stored, session, conversation_id, last)
            await steps.remove(stored, session, later)
            return len(later)

        await self._require_seen(conversation_id)
        return await self.client.transaction([conversation_id], attempt)

    async def _begin(self, session: Session | None, conversation_id: str) -> None:
        """Write to a conversation; it has to be the viewer's still."""
        own = {**equal(id=conversation_id), **seen(self.viewer)}
        touched = await self.client.collections[CONVERSATIONS].update_one(
            own, TOUCH, session=session
        )
        if self.viewer is not None and not touched.matched_count:
            raise unseen_conversation(conversation_id)

    async def fork(self, fork: Fork) -> dict[str, str]:
        document, source = document_of(fork.copy), fork.conversation_id

        async def attempt(session: Session | None) -> dict[str, str]:
            return await steps.copy(self.client.collections, session, fork, document, self.viewer)

        await self._require_seen(source)
        # The new id may be another user's, whose calls are not waited for.
        new = document["id"] if self.viewer is None else f"{document['id']}\0{self.viewer}"
        return await self.client.transaction([source, new], attempt)

    # Erasure and retention

    async def newest_sequence(self) -> Any:
        return None

    async def erase(self, user_id: str, limit: int, newest: Any) -> DeletedCounts:
        own, stored = equal(user_id=user_id), self.client.collections

        async def erase_messages(session: Session | None) -> DeletedCounts:
            documents = await self._some(stored[MESSAGES], own, limit, session)
            return await steps.remove(stored, session, documents, own)

        async def erase_traces(session: Session | None) -> DeletedCounts:
            documents = await self._some(stored[TRACES], own, limit, session)
            places = {**own, "_id": {"$in": [document["_id"] for document in documents]}}
            result = await stored[TRACES].delete_many(places, session=session)
            return DeletedCounts(0, 0, result.deleted_count)

        while documents := await self._find(stored[CONVERSATIONS], own, limit=1):
            place = {**own, "_id": documents[0]["_id"]}
            erased = await self._erase_conversation(id_of(documents[0]), place, limit)
            if any(erased):
                return erased
        if self.viewer is not None:
            return DeletedCounts()
        for step in (erase_messages, erase_traces):
            erased = await self.client.transaction([], step)
            if any(erased):
                return erased
        return DeletedCounts()

    async def _some(
        self, collection: Collection, query: Document, limit: int, session: Session | None
    ) -> list[Document]:
        return await collection.find(query, {"id": 1}, limit=limit, session=session).to_list()

    async def _erase_conversation(
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

        async def erase(session: Session | None) -> DeletedCounts | None:
            if before is not None:
                used = since(conversation_id, before)
                if await stored[MESSAGES].find_one(used, {"_id": 1}, session=session) is not None:
                    return DeletedCounts()
            return await steps.erase_conversation(stored, session, conversation_id, own, limit)

        async def attempt(session: Session | None) -> DeletedCounts:
            erased = await self.client.commit(session, erase) if limit else None
            while erased is None:
                await steps.retire(stored, session, conversation_id)
                erased = await self.client.commit(session, erase)
            return erased

        return await self.client.write([conversation_id], attempt)

    async def prune(self, conversations: Sequence[Row], before: int, limit: int) -> tuple[int, int]:
        ids = list(map(row_id, conversations))
        own = {**older_than(before), **equal(id=ids[0]), **seen(self.viewer)}
        pruned = await self._erase_conversation(ids[0], own, limit, before)
        is_done = pruned.conversations or not any(pruned)
        return pruned.conversations, int(is_done)

    async def iter_old(
        self, before: int, size: int, user_id: str | None = None
    ) -> AsyncIterator[Sequence[Row]]:
        listing, query = OLDEST_CONVERSATIONS, older_than(before)
        while documents := await self._find(
            self.client.collections[CONVERSATIONS], query, listing, size
        ):
            query = listing.after(older_than(before), documents[-1])
            yield list(map(to_row, documents))

    # Reads

    async def get_conversation(self, conversation_id: str) -> Row | None:
        return await self._one(CONVERSATIONS, equal(id=conversation_id))

    async def get_message(self, message_id: str) -> Row | None:
        return await self._one(MESSAGES, equal(id=message_id))

    async def get_trace(self, by: TraceKey, key: str) -> Row | None:
        return await self._one(TRACES, equal(**{by: key}))

    async def _one(self, name: str, query: Document) -> Row | None:
        collection, fields = self.client.collections[name], self._search.projection
        if self.viewer is None:
            document = await self.client.read(lambda: collection.find_one(query, fields))
        else:
            document = next(iter(await self._seen_among(collection, query)), None)
        return None if document is None else to_row(document)

    async def get_messages(self, message_ids: Sequence[str]) -> Sequence[Row]:
        wanted, rows = list(dict.fromkeys(message_ids)), dict[str, Row]()
        for begin in range(0, len(wanted), _IDS_A_COMMAND):
            query = among("id", wanted[begin : begin + _IDS_A_COMMAND])
            documents = await self._seen_among(self.client.collections[MESSAGES], query)
            rows.update((row[0], row) for row in to_rows(documents))
        return [rows[message_id] for message_id in message_ids if message_id in rows]

    async def list_conversations(self, page: ConversationPage) -> Sequence[Row]:
        by, owner, where, limit, after, _ = page
        listing, condition = CONVERSATIONS_BY[by], metadata_query(where)
        conversations = self.client.collections[CONVERSATIONS]
        return await self._page(conversations, listing, owner, limit, after, condition)

    async def list_messages(self, page: MessagePage) -> Sequence[Row]:
        by, owner, limit, after = page
        return await self._page(
            self.client.collections[MESSAGES], MESSAGES_BY[by], owner, limit, after
        )

    async def next_messages(self, conversation_id: str, cursor: Any, size: int) -> Batch:
        listing, messages = MESSAGES_OF_CONVERSATION, self.client.collections[MESSAGES]
        documents = await self._find(messages, listing.of(conversation_id, cursor), listing, size)
        if documents:
            cursor = listing.cursor(documents[-1])
        return Batch(to_rows(documents), cursor)

    async def list_newest(self, page: NewestPage) -> Sequence[Row]:
        owner, flagged, limit, after = page
        messages, condition = self.client.collections[MESSAGES], visible(owner, flagged)
        return await self._page(messages, NEWEST_MESSAGES, owner, limit, after, condition)

    async def count_messages(self, conversation_ids: Sequence[str]) -> dict[str, int]:
        query = among("conversation_id", conversation_ids)
        groups = await self._aggregate(MESSAGES, query, count_by_conversation)
        return {group["_id"]: group["count"] for group in groups}

    async def _aggregate(
        self, name: str, query: Document, pipeline: Callable[[Document], list[Document]]
    ) -> list[Document]:
        """Return the groups that a pipeline makes of what the viewer sees of a query."""

        async def groups() -> list[Document]:
            collection = self.client.collections[name]
            seen_query = both(query, await self._within(collection, query))
            cursor = await collection.aggregate(pipeline(seen_query), batchSize=_DOCUMENTS_A_REPLY)
            return await cursor.to_list()

        return await self.client.read(groups)

    async def list_conversation_traces(self, conversation_id: str) -> Sequence[Row]:
        listing, traces = TRACES_OF_CONVERSATION, self.client.collections[TRACES]
        return await self._page(traces, listing, conversation_id, None, None)

    async def list_agent_traces(
        self, agent_id: str, limit: int, offset: int, user_id: str | None = None
    ) -> Sequence[Row]:
        listing, traces = TRACES_OF_AGENT, self.client.collections[TRACES]
        return to_rows(await self._find(traces, listing.of(agent_id), listing, limit, offset))

    async def find_traces(self, page: TracePage) -> Sequence[Row]:
        condition, traces = filter_query(page.where), self.client.collections[TRACES]
        return await self._page(traces, TRACES_FOUND, "", page.limit, page.after, condition)

    async def summarize(
        self, where: TraceFilter, by: UsageKey, conversation_ids: Sequence[str] | None = None
    ) -> list[UsageSummary]:
        percentiles = self.client.has_percentiles
        query = filter_query(where)
        if conversation_ids is not None:
            query = both(query, among("conversation_id", conversation_ids))
        pipeline = partial(usage_pipeline, by=by, percentiles=percentiles)
        groups = await self._aggregate(TRACES, query, pipeline)
        return read_summaries(groups, by, percentiles=percentiles)

    # Searches

    async def search_state(self) -> SearchState | None:
        return await self._search.state()

    async def prepare_search(self) -> SearchState | None:
        return await self._search.prepare()

    async def make_search(self, language: str | None) -> None:
        await self._search.make(language)

    async def fill_search(self, size: int) -> tuple[int, int]:
        return await self._search.fill(size)

    async def count_unindexed(self) -> int:
        return await self._search.count_unindexed()

    async def count_found(self, clauses: Sequence[Clause], scope: SearchScope) -> Counts:
        return await self._search.count(clauses, scope._replace(viewer=self.viewer))

    async def list_found(self, page: FoundPage) -> Sequence[Row]:
        scope = page.scope._replace(viewer=self.viewer)
        return await self._search.find(page._replace(scope=scope))

    async def iter_stored(self, kind: RecordKind, size: int) -> AsyncIterator[Sequence[Row]]:
        collection, query = self.client.collections[_COLLECTIONS[kind]], Document()
        while documents := await self._find(collection, query, FIRST_STORED, size):
            query = {"_id": {"$gt": documents[-1]["_id"]}}
            yield to_rows(documents)

    async def _page(
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

        async def page() -> list[Document]:
            query = listing.of(owner)
            within = await self._within(collection, query)
            last = await self._cursor(collection, listing, both(query, within), after)
            query = {**query, **(condition or {})}
            if last is not None:
                query = listing.after(query, last)
            return (
                []
                if limit == 0
                else await self._send(collection, both(query, within), listing, limit)
            )

        return to_rows(await self.client.read(page))

    async def _cursor(
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
        own = both(query, equal(id=after))
        last = await collection.find_one(own, listing.projection, session=session)
        if last is None:
            raise NotFoundError(f"after={after!r} is no {listing.member}")
        return last

    async def _find(
        self,
        collection: Collection,
        query: Document,
        listing: Listing | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Document]:
        """Return the documents of a query that the viewer sees."""

        async def find() -> list[Document]:
            within = await self._within(collection, query)
            return await self._send(collection, both(query, within), listing, limit, offset)

        return await self.client.read(find)

    async def _send(
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
        return await cursor.to_list()
