"""The search index in a MongoDB database, and the searches in it.

The entry of a message is in its document, so that it is written and deleted with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pymongo import UpdateOne

from jazzmine._sync.clients.mongodb.client import MongoDBClient
from jazzmine._sync.message_store.backend import MessageBackend
from jazzmine._sync.message_store.searching import run_analysis
from jazzmine.backends.mongodb import words
from jazzmine.backends.mongodb.documents import HIDDEN, Document, id_of, searched_fields
from jazzmine.backends.mongodb.indexes import CONVERSATIONS, MESSAGES
from jazzmine.backends.mongodb.queries import equal
from jazzmine.records.conversation_log import unknown_after
from jazzmine.records.rows import Row
from jazzmine.search.analyser import Analyser, analyser_for
from jazzmine.search.query import Clause, FoundPage, SearchScope, SearchState
from jazzmine.search.ranking import MOST_FOUND_COUNTED, MOST_MESSAGES_COUNTED, Counts

__all__ = ["MongoDBSearch"]

_INDEXED_AT_ONCE = 500


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
        self._unindexed: int | None = None

    def search_state(self) -> SearchState | None:
        noted = self.client.run(lambda: self.client.schema.noted("search"))
        self._analyser = None if noted is None else analyser_for(noted["language"])
        self._projection = None if noted is None else HIDDEN
        return None if noted is None else SearchState(noted["language"], noted["is_complete"])

    def prepare_search(self) -> SearchState | None:
        state, indexed = self.search_state(), 1
        while state is not None and state.is_complete and indexed:
            indexed, _ = self._index(state.language, _INDEXED_AT_ONCE)
        return state

    def make_search(self, language: str | None) -> None:
        state = self.search_state()
        if (state and state.language) == language:
            return
        self.client.migrate(lambda: self.client.schema.change_search(language))
        self._unindexed = None
        self.search_state()

    def fill_search(self, size: int) -> tuple[int, int]:
        state = self.search_state()
        if state is None:
            return 0, 0
        if self._unindexed is None:
            self._unindexed = self.count_unindexed()
        indexed, found = self._index(state.language, size)
        if not found:
            complete = partial(self.client.schema.complete_search, state.language)
            self.client.run(complete)
            return 0, 0
        self._unindexed = max(1, self._unindexed - indexed)
        return indexed, self._unindexed

    def count_unindexed(self) -> int:
        assert self._analyser is not None
        query, messages = words.pending(self._analyser.language), self.client.collections[MESSAGES]
        return self.client.run(lambda: messages.count_documents(query))

    def _index(self, language: str, size: int) -> tuple[int, int]:
        """Add the entries of messages without one; return how many, and how many were found."""
        messages, query = self.client.collections[MESSAGES], words.pending(language)
        fields = {"original_content": 1}
        documents = self.client.run(
            lambda: messages.find(query, fields, limit=size).to_list()
        )
        if not documents:
            return 0, 0
        texts = [str(document.get("original_content")) for document in documents]
        updates = run_analysis(texts, _updates, documents, analyser_for(language))
        result = self.client.run(lambda: messages.bulk_write(updates, ordered=False))
        return int(result.matched_count), len(documents)

    def count_found(self, clauses: Sequence[Clause], scope: SearchScope) -> Counts:
        searched = words.scope_query(scope, self._conversations(scope))
        total = self._count(searched, MOST_MESSAGES_COUNTED)
        counts = [
            self._count(words.found_query([clause], True, (), searched), MOST_FOUND_COUNTED)
            for clause in clauses
        ]
        return total, counts

    def _count(self, query: Document, limit: int) -> int:
        messages = self.client.collections[MESSAGES]
        return self.client.run(lambda: messages.count_documents(query, limit=limit))

    def list_found(self, page: FoundPage) -> Sequence[Row]:
        clauses, every, without, scope, limit, after = page
        within = self._conversations(scope)
        query = words.found_query(clauses, every, without, words.scope_query(scope, within))
        messages, listing = self.client.collections[MESSAGES], words.FOUND
        if after is not None:
            place: dict[str, Any] = {**equal(id=after), **words.owner_query(scope, within)}
            last = self.client.run(lambda: messages.find_one(place, listing.projection))
            if last is None:
                raise unknown_after(after)
            query = listing.after(query, last)
        fields = {"id": 1, "search_entry": 1}
        documents = self.client.run(
            lambda: messages.find(query, fields, sort=listing.sort, limit=limit).to_list()
        )
        return [(id_of(document), document.get("search_entry") or "") for document in documents]

    def _conversations(self, scope: SearchScope) -> list[str] | None:
        if scope.agent_id is None:
            return None
        query, stored = equal(agent_id=scope.agent_id), self.client.collections[CONVERSATIONS]
        documents = self.client.run(lambda: stored.find(query, {"id": 1}).to_list())
        return list(map(id_of, documents))
