"""The search index in a MongoDB database, and the searches and pages in it.

The entry of a message is in its document, so that it is written and deleted with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pymongo import UpdateOne

from jazzmine._async.clients.mongodb.client import MongoDBClient
from jazzmine._async.clients.mongodb.types import Session
from jazzmine._async.message_store.backend import MessageBackend
from jazzmine._async.message_store.searching import run_analysis
from jazzmine.backends.mongodb import words
from jazzmine.backends.mongodb.documents import HIDDEN, Document, id_of, searched_fields
from jazzmine.backends.mongodb.indexes import CONVERSATIONS, MESSAGES
from jazzmine.backends.mongodb.queries import Listing, equal
from jazzmine.records.conversation_log import unknown_after
from jazzmine.records.rows import Row
from jazzmine.search.analyser import Analyser, analyser_for
from jazzmine.search.query import Clause, FoundPage, SearchScope, SearchState
from jazzmine.search.ranking import MOST_FOUND_COUNTED, MOST_MESSAGES_COUNTED, Counts

_INDEXED_AT_ONCE = 500

# The maximum number of documents in a reply; the server also limits a reply to 16 MiB.
DOCUMENTS_A_REPLY = 1_000

# The server refuses a sum of skip and limit beyond 64 bits.
_MOST = 2**32


def _updates(documents: Sequence[Document], analyser: Analyser) -> list[UpdateOne]:
    """Return the updates that add the entries of messages whose text is still the same."""
    return [
        UpdateOne(
            {"_id": document["_id"], "original_content": {"$eq": document.get("original_content")}},
            {"$set": searched_fields(document.get("original_content"), analyser)},
        )
        for document in documents
    ]


class MongoDBSearch(MessageBackend):
    """The hooks of a message store for searches.

    Args:
        client: that of the store.
    """

    def __init__(self, client: MongoDBClient) -> None:
        self.client: MongoDBClient = client
        self._analyser: Analyser | None = None
        # The projection of what others than searches read.
        self._projection: dict[str, int] | None = None

    async def search_state(self) -> SearchState | None:
        noted = await self.client.run(lambda: self.client.schema.noted("search"))
        self._analyser = None if noted is None else analyser_for(noted["language"])
        self._projection = None if noted is None else HIDDEN
        return None if noted is None else SearchState(noted["language"], noted["is_complete"])

    async def prepare_search(self) -> SearchState | None:
        state, indexed = await self.search_state(), 1
        while state is not None and state.is_complete and indexed:
            indexed, _ = await self._index(state.language, _INDEXED_AT_ONCE)
        return state

    async def make_search(self, language: str | None) -> None:
        state = await self.search_state()
        if (state and state.language) == language:
            return
        await self.client.migrate(lambda: self.client.schema.change_search(language))
        await self.search_state()

    async def fill_search(self, size: int) -> int | None:
        state = await self.search_state()
        if state is None:
            return None
        indexed, found = await self._index(state.language, size)
        if found:
            return indexed
        await self.client.run(partial(self.client.schema.complete_search, state.language))
        return None

    async def _index(self, language: str, size: int) -> tuple[int, int]:
        """Add the entries of messages without one; return how many, and how many were found."""
        messages, query = self.client.collections[MESSAGES], words.pending(language)
        fields = {"original_content": 1}
        documents = await self.client.run(
            lambda: messages.find(query, fields, limit=size).to_list()
        )
        if not documents:
            return 0, 0
        texts = [str(document.get("original_content")) for document in documents]
        updates = await run_analysis(texts, _updates, documents, analyser_for(language))
        result = await self.client.run(lambda: messages.bulk_write(updates, ordered=False))
        return int(result.matched_count), len(documents)

    async def count_found(self, clauses: Sequence[Clause], scope: SearchScope) -> Counts:
        searched = words.scope_query(scope, await self._conversations(scope))
        total = await self._count(searched, MOST_MESSAGES_COUNTED)
        counts = [
            await self._count(words.found_query([clause], True, (), searched), MOST_FOUND_COUNTED)
            for clause in clauses
        ]
        return total, counts

    async def _count(self, query: Document, limit: int) -> int:
        messages = self.client.collections[MESSAGES]
        return await self.client.run(lambda: messages.count_documents(query, limit=limit))

    async def list_found(self, page: FoundPage) -> Sequence[Row]:
        clauses, every, without, scope, limit, after = page
        within = await self._conversations(scope)
        query = words.found_query(clauses, every, without, words.scope_query(scope, within))
        if after is not None:
            owned = words.owner_query(scope, within)
            last = await self.client.run(partial(self._cursor, words.FOUND, owned, after))
            query = words.FOUND.after(query, last)
        fields = {"id": 1, "search_entry": 1}
        documents = await self._find(words.FOUND, query, limit, fields=fields)
        return [(id_of(document), document.get("search_entry") or "") for document in documents]

    async def _conversations(self, scope: SearchScope) -> list[str] | None:
        if scope.agent_id is None:
            return None
        query, stored = equal(agent_id=scope.agent_id), self.client.collections[CONVERSATIONS]
        documents = await self.client.run(lambda: stored.find(query, {"id": 1}).to_list())
        return list(map(id_of, documents))

    async def _cursor(
        self, listing: Listing, query: Document, after: str, session: Session | None = None
    ) -> Document:
        """Return the cursor of a document of a query.

        Raises:
            NotFoundError: `after` does not belong to the query.
        """
        collection, own = self.client.collections[listing.collection], {**query, **equal(id=after)}
        last = await collection.find_one(own, listing.projection, session=session)
        if last is None:
            raise unknown_after(after)
        return last

    async def _find(
        self,
        listing: Listing,
        query: Document,
        limit: int | None = None,
        offset: int = 0,
        fields: dict[str, int] | None = None,
    ) -> list[Document]:
        """Return the documents of a query, or fields of them, in the order of a listing."""
        cursor = self.client.collections[listing.collection].find(
            query,
            fields or self._projection,
            sort=listing.sort,
            skip=min(offset, _MOST),
            limit=limit if limit is not None and limit < _MOST else 0,
            batch_size=min(limit or DOCUMENTS_A_REPLY, DOCUMENTS_A_REPLY),
        )
        return await self.client.run(cursor.to_list)
