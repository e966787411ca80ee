"""The search index in a PostgreSQL schema, and the searches in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jazzmine._sync.message_store.backend import MessageBackend
from jazzmine._sync.message_store.searching import run_analysis
from jazzmine.backends.postgres import word_index as words
from jazzmine.backends.postgres.text import from_text, to_text
from jazzmine.config import PostgresConfig
from jazzmine.records.conversation_log import unknown_after
from jazzmine.records.rows import Row
from jazzmine.records.types import MAX_INT
from jazzmine.search.analyser import Analyser, analyser_for
from jazzmine.search.query import Clause, FoundPage, SearchScope, SearchState
from jazzmine.search.ranking import MOST_FOUND_COUNTED, MOST_MESSAGES_COUNTED, Counts

if TYPE_CHECKING:
    from jazzmine._sync.clients.postgres.client import PostgresClient

_PENDING_AT_ONCE = 500


class PostgresSearch(MessageBackend):
    """The hooks of a message store for searches.

    Args:
        config: that of the store.
        client: that of the store.
    """

    def __init__(self, config: PostgresConfig, client: PostgresClient) -> None:
        self.client: PostgresClient = client
        self.search_language = config.search_language
        self._analyser: Analyser | None = None
        # How far the search index is filled: the id of a message.
        self._filled = ""

    def search_state(self) -> SearchState | None:
        rows = self.client.run(words.SEARCH_STATE)
        state = words.read_state(rows[0][0]) if rows else None
        self._analyser = None if state is None else analyser_for(state.language)
        return state

    def prepare_search(self) -> SearchState | None:
        state = self.search_state()
        if state is not None and state.is_complete:
            self._index_pending(state.language)
        return state

    def make_search(self, language: str | None) -> None:
        self.client.change_search(language)
        self._filled = ""
        self.search_state()

    def fill_search(self, size: int) -> int | None:
        state = self.search_state()
        if state is None:
            return None
        page = {"after": self._filled, "limit": size}
        rows = self.client.run(words.UNINDEXED, page)
        if not rows and self._filled:
            # Those that others have stored meanwhile, and those that were locked.
            rows = self.client.run(words.UNINDEXED, {**page, "after": ""})
        if not rows:
            self.client.run(words.COMPLETE, {"language": state.language})
            return None
        self._filled = rows[-1][0]
        return self._index(rows, state.language)

    def _index(self, rows: Sequence[Row], language: str) -> int:
        """Index messages, each given as its id, its text and its version; return how many."""
        texts = [row[1] for row in rows]
        entries = run_analysis(texts, words.entries_json, rows, analyser_for(language))
        return len(self.client.run(words.INDEX, {"entries": entries}))

    def _index_pending(self, language: str) -> None:
        """Index what processes have stored that do not know of the index."""
        while rows := self.client.run(words.PENDING, {"limit": _PENDING_AT_ONCE}):
            if not self._index(rows, language):
                return

    def count_found(self, clauses: Sequence[Clause], scope: SearchScope) -> Counts:
        parameters = {
            **words.scope_parameters(scope),
            "queries": [words.scope_query(scope, words.clause_query(clause)) for clause in clauses],
            "most_messages": MOST_MESSAGES_COUNTED,
            "most_found": MOST_FOUND_COUNTED,
        }
        rows = self.client.run(words.COUNT_FOUND, parameters, prepare=False)
        return rows[0][0], rows[0][1]

    def list_found(self, page: FoundPage) -> Sequence[Row]:
        scope = words.scope_parameters(page.scope)
        last_timestamp, last_seq = MAX_INT, MAX_INT
        if page.after is not None:
            place = {**scope, "after": to_text(page.after)}
            rows = self.client.run(words.PLACE, place, prepare=False)
            if not rows:
                raise unknown_after(page.after)
            last_timestamp, last_seq = rows[0]
        parameters = {
            **scope,
            "query": words.clauses_query(page.clauses, page.every, page.without, page.scope),
            "limit": page.limit,
            "last_timestamp": last_timestamp,
            "last_seq": last_seq,
        }
        # How rare the words are decides which index is the best.
        rows = self.client.run(words.LIST_FOUND, parameters, prepare=False)
        return [(from_text(row[0]), row[1]) for row in rows]
