"""The search index in an SQLite database, and the searches in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from jazzmine._sync.clients.sqlite import SQLiteClient
from jazzmine._sync.message_store.backend import MessageBackend
from jazzmine.backends.sqlite import search, search_queries
from jazzmine.records.rows import Row
from jazzmine.search.query import Clause, FoundPage, SearchScope, SearchState
from jazzmine.search.ranking import Counts

__all__ = ["SQLiteSearch"]


class SQLiteSearch(MessageBackend):
    """The hooks of a message store for searches.

    Args:
        client: runs its queries and changes.
        search: the language of the index that a new store gets, or None.
    """

    # How many messages are indexed in the step that makes the index; here, others may be writing.
    indexed_at_once: ClassVar[int] = 0

    def __init__(self, client: SQLiteClient, search: str | None = None) -> None:
        self.client: SQLiteClient = client
        self._search = search

    def search_state(self) -> SearchState | None:
        return self.client.read(search.read_state)

    def prepare_search(self) -> SearchState | None:
        state, has_pending = self.client.read(search.read_state_and_pending)
        if has_pending:
            self.client.write(search.index_pending)
            self.client.database.has_search = True
        return state

    def make_search(self, language: str | None) -> None:
        self.client.write(search.make, language, self.indexed_at_once)
        self.client.database.has_search = language is not None

    def fill_search(self, size: int) -> tuple[int, int]:
        return self.client.write(search.fill, size)

    def count_unindexed(self) -> int:
        return self.client.read(search.count_unindexed)

    def count_found(self, clauses: Sequence[Clause], scope: SearchScope) -> Counts:
        return self.client.read(search_queries.count_found, clauses, scope, records=None)

    def list_found(self, page: FoundPage) -> Sequence[Row]:
        return self.client.read(search_queries.list_found, page, records=None)
