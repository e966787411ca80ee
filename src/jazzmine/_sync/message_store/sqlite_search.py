"""The search index in an SQLite database, and the searches in it."""

from __future__ import annotations

import sqlite3
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
        """Return how the index was made."""
        return self.client.read(lambda connection, _: search.read_state(connection))

    def prepare_search(self) -> SearchState | None:
        """Index what processes have stored that do not know of the index."""

        def look(connection: sqlite3.Connection, _: int) -> tuple[SearchState | None, bool]:
            state = search.read_state(connection)
            is_complete = state is not None and state.is_complete
            return state, is_complete and search.has_pending(connection)

        state, has_pending = self.client.read(look)
        if has_pending:
            self.client.write(search.index_pending)
            self.client.database.has_search = True
        return state

    def make_search(self, language: str | None) -> None:
        """Make the index, or remove it."""
        at_once = self.indexed_at_once

        def make(connection: sqlite3.Connection) -> None:
            search.make(connection, language)
            if language is not None and at_once:
                search.fill(connection, at_once)

        self.client.write(make)
        self.client.database.has_search = language is not None

    def fill_search(self, size: int) -> tuple[int, int]:
        """Index some messages."""
        return self.client.write(lambda connection: search.fill(connection, size))

    def count_unindexed(self) -> int:
        """Compare how many messages and how many entries there are."""
        return self.client.read(lambda connection, _: search.count_unindexed(connection))

    def count_found(self, clauses: Sequence[Clause], scope: SearchScope) -> Counts:
        """Count messages by the index."""
        return self.client.read(
            lambda connection, _: search_queries.count_found(connection, clauses, scope), None
        )

    def list_found(self, page: FoundPage) -> Sequence[Row]:
        """Return messages that the index finds."""
        return self.client.read(
            lambda connection, size: search_queries.list_found(connection, page), None
        )
