"""The hooks of the message store in a MongoDB database that read, and those of its life."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from jazzmine._async.clients.mongodb.client import MongoDBClient
from jazzmine._async.message_store.backend import Batch, TraceKey
from jazzmine._async.message_store.mongodb_search import DOCUMENTS_A_REPLY, MongoDBSearch
from jazzmine.backends.mongodb.documents import Document, to_row, to_rows
from jazzmine.backends.mongodb.indexes import CONVERSATIONS, INDEXES, MESSAGES, TRACES
from jazzmine.backends.mongodb.queries import (
    CONVERSATIONS_BY,
    MESSAGES_BY,
    MESSAGES_OF_CONVERSATION,
    NEWEST_MESSAGES,
    TRACES_FOUND,
    TRACES_OF_CONVERSATION,
    Listing,
    among,
    equal,
    owned_by,
    visible,
)
from jazzmine.backends.mongodb.trace_filters import filter_query, metadata_query
from jazzmine.backends.mongodb.usage import read_summaries, usage_pipeline
from jazzmine.config import MongoDBConfig
from jazzmine.records.base import RecordKind
from jazzmine.records.hook_arguments import ConversationPage, MessagePage, NewestPage, TracePage
from jazzmine.records.rows import Row
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

#: The collection of each kind of record.
COLLECTIONS_OF: dict[RecordKind, str] = {
    "conversations": CONVERSATIONS,
    "messages": MESSAGES,
    "traces": TRACES,
}


class MongoDBReads(MongoDBSearch):
    """The hooks that open, close and read a message store in a MongoDB database."""

    system_name = "mongodb"

    def __init__(self, config: MongoDBConfig) -> None:
        super().__init__(MongoDBClient(config, INDEXES))
        self.search_language = config.search_language

    async def get_conversation(self, conversation_id: str) -> Row | None:
        return await self._one(CONVERSATIONS, equal(id=conversation_id))

    async def get_message(self, message_id: str) -> Row | None:
        return await self._one(MESSAGES, equal(id=message_id))

    async def get_trace(self, by: TraceKey, key: str) -> Row | None:
        return await self._one(TRACES, equal(**{by: key}))

    async def _one(self, name: str, query: Document) -> Row | None:
        collection, fields = self.client.collections[name], self._projection
        document = await self.client.run(lambda: collection.find_one(query, fields))
        return None if document is None else to_row(document)

    async def get_messages(self, message_ids: Sequence[str]) -> Sequence[Row]:
        messages, query = self.client.collections[MESSAGES], among("id", message_ids)
        found = messages.find(query, self._projection, batch_size=DOCUMENTS_A_REPLY)
        rows = {row[0]: row for row in to_rows(await self.client.run(found.to_list))}
        return [rows[message_id] for message_id in message_ids if message_id in rows]

    async def list_conversations(self, page: ConversationPage) -> Sequence[Row]:
        by, owner, where, limit, after, user_id = page
        condition = {**metadata_query(where), **owned_by(user_id)}
        return await self._page(CONVERSATIONS_BY[by], owner, limit, after, condition)

    async def list_messages(self, page: MessagePage) -> Sequence[Row]:
        by, owner, limit, after = page
        return await self._page(MESSAGES_BY[by], owner, limit, after)

    async def next_messages(self, conversation_id: str, cursor: Any, size: int) -> Batch:
        listing = MESSAGES_OF_CONVERSATION
        documents = await self._find(listing, listing.of(conversation_id, cursor), size)
        if documents:
            last = documents[-1]
            cursor = {"_id": last["_id"], listing.field: last.get(listing.field)}
        return Batch(to_rows(documents), cursor)

    async def list_newest(self, page: NewestPage) -> Sequence[Row]:
        owner, flagged, limit, after = page
        return await self._page(NEWEST_MESSAGES, owner, limit, after, visible(owner, flagged))

    async def count_messages(self, conversation_ids: Sequence[str]) -> dict[str, int]:
        pipeline: list[Document] = [
            {"$match": among("conversation_id", conversation_ids)},
            {"$group": {"_id": "$conversation_id", "count": {"$sum": 1}}},
        ]
        return {group["_id"]: group["count"] for group in await self._aggregate(MESSAGES, pipeline)}

    async def _aggregate(self, name: str, pipeline: list[Document]) -> list[Document]:
        collection = self.client.collections[name]

        async def groups() -> list[Document]:
            cursor = await collection.aggregate(pipeline, batchSize=DOCUMENTS_A_REPLY)
            return await cursor.to_list()

        return await self.client.run(groups)

    async def list_conversation_traces(self, conversation_id: str) -> Sequence[Row]:
        return await self._page(TRACES_OF_CONVERSATION, conversation_id, None, None)

    async def find_traces(self, page: TracePage) -> Sequence[Row]:
        where, limit, after, offset = page
        return await self._page(TRACES_FOUND, "", limit, after, filter_query(where), offset)

    async def summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        originals = {"copied_from": None}  # what the copies of forks cost is counted once
        pipeline = usage_pipeline({**filter_query(where), **originals}, by)
        return read_summaries(await self._aggregate(TRACES, pipeline), by)

    async def iter_stored(
        self, kinds: Sequence[RecordKind], size: int
    ) -> AsyncIterator[tuple[RecordKind, Sequence[Row]]]:
        for kind in kinds:
            first_stored, query = Listing(COLLECTIONS_OF[kind], "_id", 1), Document()
            while documents := await self._find(first_stored, query, size):
                query = {"_id": {"$gt": documents[-1]["_id"]}}
                yield kind, to_rows(documents)

    async def _page(
        self,
        listing: Listing,
        owner: str,
        limit: int | None,
        after: str | None,
        condition: Mapping[str, Any] | None = None,
        offset: int = 0,
    ) -> Sequence[Row]:
        """Return a page of the documents of an owner that fulfil a condition.

        Raises:
            NotFoundError: `after` does not belong to the owner.
        """

        owned = listing.of(owner)
        query = {**owned, **(condition or {})}
        if after is not None:
            last = await self.client.run(partial(self._cursor, listing, owned, after))
            query = listing.after(query, last)
        return [] if limit == 0 else to_rows(await self._find(listing, query, limit, offset))
