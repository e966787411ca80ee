"""The search of a message store, and how it gets the index for that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from jazzmine._async.message_store.backend import MessageBackend
from jazzmine._async.message_store.messages import MessageMethods
from jazzmine._async.operation import operation
from jazzmine._compat.concurrency import async_run_blocking as run_blocking
from jazzmine.errors import ConfigurationError
from jazzmine.records.arguments import (
    optional_id,
    require_choice,
    require_count,
    require_roles,
    require_text,
    require_time,
)
from jazzmine.records.messages import FoundMessage, MessageRole, SearchOrder
from jazzmine.records.rows import Row, are_many, row_id
from jazzmine.search.analyser import Analyser, analyser_for
from jazzmine.search.query import Clause, FoundPage, Query, SearchScope, Term, parse_query, spans_of
from jazzmine.search.ranking import MOST_READ, Counts, clauses_to_find, matches, ranked

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

# The words of so many characters are found in a few milliseconds, with their stems, too.
_FEW_CHARACTERS = 5_000


class SearchMethods(MessageMethods):
    """Searches for the words of messages."""

    @operation("messages")
    async def search_messages(
        self,
        query: str,
        *,
        user_id: str | None = None,
        conversation_id: str | None = None,
        agent_id: str | None = None,
        roles: Iterable[MessageRole | str] | None = None,
        since: int | None = None,
        until: int | None = None,
        order: SearchOrder = "relevance",
        limit: int = 20,
        after: str | None = None,
    ) -> list[FoundMessage]:
        """Return the messages whose `original_content` has the words of a query.

        The store needs a search index, which the option `search` of a new store makes, and the
        command `jazzmine index` in one that has messages.

        By relevance, a message needs one of the words; they are ranked by BM25, with the
        frequencies of words in what is searched. A word that half of 100 messages or more have
        finds nothing beside rarer ones. A query without any word (signs and emojis are none) finds
        nothing, and says so in the log. A search reads 2,000 messages at most: if more have one of
        the words, the newest that have the rarest ones. By time, a message needs all words.

        Args:
            query: words, "quoted phrases", `beginnings*`, and `-words` that must not be there.
            user_id: only messages of this user.
            conversation_id: only messages of this conversation.
            agent_id: only messages of conversations with this agent.
            roles: only messages of these authors; None is all.
            since: only messages with this `timestamp` or a later one; ms since the Unix epoch, UTC.
            until: only messages with an earlier `timestamp`.
            order: "relevance" for the best first, "newest" for pages by time.
            limit: how many at most.
            after: for "newest", the id of the last message of the page before.

        Raises:
            ConfigurationError: the store has no search index, or not yet a complete one.
            NotFoundError: `after` is no message of what is searched.
            ValueError: `after` is given, and the order is "relevance".
        """
        text, size = require_text("query", query), require_count("limit", limit)
        by_time = require_choice("order", order, SearchOrder) == "newest"
        last = optional_id("after", after)
        if last is not None and not by_time:
            raise ValueError('after needs order="newest": a ranking has no pages')
        scope = SearchScope(
            optional_id("user_id", user_id),
            optional_id("conversation_id", conversation_id),
            optional_id("agent_id", agent_id),
            require_roles(roles),
            None if since is None else require_time("since", since),
            None if until is None else require_time("until", until),
        )
        if (not size and last is None) or (roles is not None and not scope.roles):
            return []
        analyser = await require_search(self.backend)
        wanted = parse_query(text, analyser)
        if not wanted.clauses:
            logger.warning("a search without any word finds nothing; signs and emojis are no words")
            return []
        if by_time:
            best = await find_newest(self.backend, wanted, scope, size, last)
        else:
            best = await find_best(self.backend, wanted, scope, size)
        if not best:
            return []
        rows = await self.backend.get_messages(list(best))
        messages = await self._decoded(self._messages, rows)
        texts = [message.original_content for message in messages]

        def found() -> list[FoundMessage]:
            return [
                FoundMessage(one, best[one.id], spans_of(wanted, one.original_content, analyser))
                for one in messages
            ]

        return await run_analysis(texts, found)


async def require_search(backend: MessageBackend) -> Analyser:
    """Return the analyser of a store's index; raise `ConfigurationError` unless it is complete."""
    state = await backend.prepare_search()
    if state is None:
        raise ConfigurationError(
            "this store has no search; the command `jazzmine index` adds it, and the option"
            " `search` to a new store"
        )
    if not state.is_complete:
        raise ConfigurationError(
            "the search of this store is not complete yet; the command `jazzmine index` goes on"
            " with it"
        )
    return analyser_for(state.language)


async def find_best(
    backend: MessageBackend, query: Query, scope: SearchScope, limit: int
) -> dict[str, float]:
    """Return the ids of the messages that match a query best, with their scores."""

    async def read(clauses: Sequence[Clause]) -> Sequence[Row]:
        page = FoundPage(clauses, False, _terms(query), scope, MOST_READ, None)
        return await backend.list_found(page)

    clauses = query.clauses
    rows: Sequence[Row] = ()
    if len(clauses) == 1:
        # There is nothing to choose by counts; and if the list is whole, it is one itself.
        rows = await read(clauses)
        if not rows:
            return {}
    if 0 < len(rows) < MOST_READ and not query.excluded:
        total, _ = await backend.count_found((), scope)
        counts: Counts = total, [len(rows)]
    else:
        counts = await backend.count_found(clauses, scope)
    needed = clauses_to_find(clauses, counts)
    if not needed:
        return {}
    if len(clauses) > 1:
        rows = await read(needed)
    entries = [str(row[1], "utf-8") if isinstance(row[1], bytes) else row[1] for row in rows]
    if are_many(rows):
        # Ranking them here would keep other calls waiting.
        ranking = await run_blocking(ranked, entries, query, counts, needed)
    else:
        ranking = ranked(entries, query, counts, needed)
    return {row_id(rows[place]): score for place, score in ranking[:limit]}


async def find_newest(
    backend: MessageBackend, query: Query, scope: SearchScope, limit: int, after: str | None
) -> dict[str, float]:
    """Return the ids of the newest messages that have all of a query."""
    found: dict[str, float] = {}
    read, size = 0, max(1, limit)  # a limit of 0 finds out whether there is an `after`
    while read < MOST_READ:
        size = min(size, MOST_READ - read)
        page = FoundPage(query.clauses, True, _terms(query), scope, size, after)
        rows = await backend.list_found(page)
        for row in rows:
            entry = str(row[1], "utf-8") if isinstance(row[1], bytes) else row[1]
            if matches(entry, query):
                found[row_id(row)] = 0.0
        if len(rows) < size or len(found) >= limit:
            break
        read += len(rows)
        size *= 2
        after = row_id(rows[-1])
    return dict(list(found.items())[:limit])


async def run_analysis(texts: Iterable[str], function: Callable[..., T], *args: Any) -> T:
    """Return the result of a function that finds the words of some texts."""
    if sum(map(len, texts)) > _FEW_CHARACTERS:
        # Finding them here would keep other calls waiting.
        result: T = await run_blocking(function, *args)
        return result
    return function(*args)


def _terms(query: Query) -> list[Term]:
    """Return the terms that an index can exclude; phrases are excluded by the text."""
    return [clause.terms[0] for clause in query.excluded if len(clause.terms) == 1]
