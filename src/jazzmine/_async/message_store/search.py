"""The method of a message store that searches for words."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from jazzmine._async.message_store.records import StoredRecords
from jazzmine._async.message_store.searching import (
    find_best,
    find_newest,
    find_spans,
    require_search,
)
from jazzmine._async.operation import operation
from jazzmine.records.arguments import (
    SEARCH_ORDERS,
    require_choice,
    require_count,
    require_id,
    require_roles,
    require_text,
    require_time,
)
from jazzmine.records.messages import FoundMessage, MessageRole, SearchOrder
from jazzmine.search.query import SearchScope, parse_query

__all__ = ["SearchMethods"]

logger: logging.Logger = logging.getLogger(__name__)


class SearchMethods(StoredRecords):
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
        by_time = require_choice("order", order, SEARCH_ORDERS) == "newest"
        last = None if after is None else require_id("after", after)
        if last is not None and not by_time:
            raise ValueError('after needs order="newest": a ranking has no pages')
        scope = SearchScope(
            None if user_id is None else require_id("user_id", user_id),
            None if conversation_id is None else require_id("conversation_id", conversation_id),
            None if agent_id is None else require_id("agent_id", agent_id),
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
        spans = await find_spans(wanted, texts, analyser)
        return [
            FoundMessage(message, best[message.id], places)
            for message, places in zip(messages, spans, strict=True)
        ]
