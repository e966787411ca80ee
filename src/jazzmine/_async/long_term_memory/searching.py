"""Search of a long-term memory, by words and by vectors."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from jazzmine._async.long_term_memory.items import StoredItems
from jazzmine._async.operation import operation
from jazzmine.records.arguments import (
    require_count,
    require_id,
    require_metadata,
    require_namespace,
    require_text,
)
from jazzmine.records.item_paths import namespace_path
from jazzmine.records.item_rows import ItemQuery, cursor_of, path_text
from jazzmine.records.items import FoundItem
from jazzmine.search.ranking import ranked_by_words, text_of
from jazzmine.search.vectors import Ranking, fused, packed_vectors, ranked_by_vector

__all__ = ["ItemSearch"]

# Among how many items, the newest ones, a search looks for words.
_SEARCHED = 2_000

# How many vectors are read at a time.
_AT_ONCE = 1_000

logger: logging.Logger = logging.getLogger(__name__)


class ItemSearch(StoredItems):
    """The search of a long-term memory."""

    @operation("items")
    async def search_items(
        self,
        query: str,
        *,
        prefix: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        by: Literal["words", "vectors"] | None = None,
        limit: int = 20,
    ) -> list[FoundItem]:
        """Return the items that match a query best, best first.

        By words those are items with a word of the query in a string of their `value`, ranked by
        BM25, among the newest 2,000 within `prefix` and `where`. By vectors all items there that
        have one are ranked by its cosine with that of the query, exactly.

        Args:
            query: words.
            prefix: as in `list_items`.
            where: as in `list_items`.
            user_id: as in `list_items`.
            by: "words" or "vectors"; by default words, and in a store with `embed` both, whose
                rankings make one by reciprocal ranks.
            limit: how many at most.

        Raises:
            ValueError: `by` is "vectors", and the store has no `embed`.
        """
        text = require_text("query", query)
        wanted = ItemQuery(
            prefix=namespace_path(require_namespace("prefix", prefix, 0)),
            where=require_metadata("where", where),
            user_id=None if user_id is None else require_id("user_id", user_id),
        )
        size = require_count("limit", limit)
        if by not in (None, "words", "vectors"):
            raise ValueError(f"by must be 'words', 'vectors' or None, not {by!r}")
        if by == "vectors" and self.embed is None:
            raise ValueError("a search by vectors needs a store that was opened with embed")
        if not size:
            return []
        rankings: list[Ranking] = []
        if by != "vectors":
            newest = replace(wanted, order="updated", reads="values")
            rows = await self._rows(newest, _SEARCHED, None)
            if len(rows) == _SEARCHED:
                self._warn("a search for words was among the %d newest items alone", _SEARCHED)
            texts = {path_text(row): text_of(self._decoder.value(row)) for row in rows}
            rankings.append(ranked_by_words(text, texts))
        if by != "words" and self.embed is not None:
            rankings.append(await self._nearest(text, replace(wanted, reads="vectors")))
        ranking = fused(rankings) if len(rankings) > 1 else rankings[0]
        best = dict(ranking[:size])
        if not best:
            return []
        found = await self._items_at(list(best))
        return [FoundItem(found[path], score) for path, score in best.items() if path in found]

    async def _nearest(self, text: str, query: ItemQuery) -> Ranking:
        """Rank all items that have a vector by its cosine with that of a text."""
        wanted = packed_vectors(await self._vectors([text]))
        if wanted is None:
            return []
        ranking: Ranking = []
        cursor = None
        while True:
            rows = await self._rows(query, _AT_ONCE, cursor)
            near = ranked_by_vector(wanted, ((path_text(row), row[2]) for row in rows))
            if len(near) < len(rows):
                self._warn(
                    "a search left out %d items: another model made vectors of another"
                    " length, and they have to be put again",
                    len(rows) - len(near),
                )
            ranking += near
            if len(rows) < _AT_ONCE:
                return sorted(ranking, key=lambda pair: -pair[1])
            cursor = cursor_of(rows[-1])

    def _warn(self, text: str, count: int) -> None:
        """Say something once in the life of the store."""
        if text not in self._warned:
            self._warned.add(text)
            logger.warning(text, count)
