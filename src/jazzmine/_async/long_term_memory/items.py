"""How a long-term memory stores, reads and finds its items: checks, vectors and encryption."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Literal

from jazzmine._async.long_term_memory.backend import ItemBackend
from jazzmine._async.long_term_memory.encrypted import decrypted, matching
from jazzmine._async.operation import operation
from jazzmine._async.store import Store
from jazzmine._compat.concurrency import async_run_given as run_given
from jazzmine.deadline import begin_call
from jazzmine.encryption.items import ItemCodec
from jazzmine.encryption.used_keys import SAMPLED, require_right_keys
from jazzmine.records.arguments import (
    optional_id,
    require_count,
    require_id,
    require_metadata,
    require_namespace,
    require_revision,
    require_text,
    require_texts,
)
from jazzmine.records.base import snapshot
from jazzmine.records.item_paths import namespace_path, path_of
from jazzmine.records.item_rows import (
    Cursor,
    ItemChange,
    ItemConflict,
    ItemDecoder,
    ItemQuery,
    ItemRow,
    Reads,
    Stored,
    cursor_of,
    item_conflict,
    path_text,
)
from jazzmine.records.items import DeleteItem, FoundItem, MemoryItem, PutItem
from jazzmine.search.ranking import ranked_by_words, text_of
from jazzmine.search.vectors import Embed, Ranking, fused, packed_vectors, ranked_by_vector

# Among how many items, the newest ones, a search looks for words.
_SEARCHED = 2_000

# How many vectors are read at a time.
_AT_ONCE = 1_000

logger: logging.Logger = logging.getLogger(__name__)


class StoredItems(Store[ItemBackend]):
    """Stores, reads and finds the items of a long-term memory."""

    def __init__(
        self, backend: ItemBackend, embed: Embed | None = None, codec: ItemCodec | None = None
    ) -> None:
        if embed is not None and not callable(embed):
            raise TypeError(f"embed must be callable, not {type(embed).__name__}")
        super().__init__(backend)
        self.embed: Embed | None = embed
        self.codec: ItemCodec | None = codec
        self._decoder = ItemDecoder()
        self._warned: set[str] = set()

    async def _opened(self) -> None:
        if self.codec is not None:
            query = ItemQuery(order="updated", reads="values")
            rows = await self.backend.list_items(query, SAMPLED, None)
            read = self.codec.decrypted
            require_right_keys(
                self.codec.keyring, rows, self.codec.key_id, lambda row: read([row], "values")
            )

    async def _rows_at(self, paths: Sequence[str]) -> Sequence[ItemRow]:
        """Return the stored items at different paths, as the back end returns them."""
        return await self.backend.get_items(paths)

    async def _items_at(self, paths: Sequence[str]) -> dict[str, MemoryItem]:
        rows = await self._decrypted(await self._rows_at(list(dict.fromkeys(paths))))
        items = self._decoder.items(rows)
        return {path_of(item.namespace, item.key): item for item in items}

    async def _rows(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        """Return a page of items, decrypted."""
        if self.codec is not None and query.where:
            return await matching(self.backend, self.codec, query, query.where, limit, after)
        rows = await self.backend.list_items(query, limit, after)
        return await self._decrypted(rows, query.reads)

    async def _decrypted(
        self, rows: Sequence[ItemRow], reads: Reads = "items"
    ) -> Sequence[ItemRow]:
        return rows if self.codec is None else await decrypted(self.codec, rows, reads)

    def _encoded(self, change: ItemChange) -> ItemChange:
        return change if self.codec is None else self.codec.encrypted(change)

    async def _apply(self, changes: Sequence[PutItem | DeleteItem]) -> list[MemoryItem | bool]:
        prepared = [prepared_change(change) for change in changes]
        if len({change.path for change in prepared}) < len(prepared):
            raise ValueError("two changes are of one item; nothing was changed")
        if not prepared:
            return []
        if self.embed is not None:
            prepared = await self._with_vectors(changes, prepared)
        outcomes = await self.backend.apply(list(map(self._encoded, prepared)))
        if isinstance(outcomes, ItemConflict):
            conflict = prepared[outcomes.index]
            raise item_conflict(conflict.path, conflict.expected, outcomes.revision)
        return [
            change.item.model_copy(update=outcome._asdict())
            if change.item is not None and isinstance(outcome, Stored)
            else bool(outcome)
            for change, outcome in zip(prepared, outcomes, strict=True)
        ]

    async def _with_vectors(
        self, given: Sequence[PutItem | DeleteItem], changes: Sequence[ItemChange]
    ) -> list[ItemChange]:
        texts = list(map(_texts, given))
        vectors = iter(await self._vectors([text for some in texts for text in some]))
        return [
            replace(change, vector=packed_vectors(islice(vectors, len(some))))
            for change, some in zip(changes, texts, strict=True)
        ]

    async def _vectors(self, texts: list[str]) -> list[Any]:
        if not texts:
            return []
        assert self.embed is not None
        returned = await run_given(self.embed, texts)
        begin_call()  # the user's function takes as long as it does
        if not isinstance(returned, Iterable):
            raise TypeError(f"embed must return a list of vectors, not {type(returned).__name__}")
        vectors = list(returned)
        if len(vectors) != len(texts):
            raise ValueError(f"embed returned {len(vectors)} vectors for {len(texts)} texts")
        return vectors

    # Search

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
            user_id=optional_id("user_id", user_id),
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


def prepared_change(change: PutItem | DeleteItem) -> ItemChange:
    """Return a change with checked values, which no other code refers to."""
    if isinstance(change, PutItem):
        item = snapshot(change.item, MemoryItem).record
        path = path_of(item.namespace, item.key)
        return ItemChange(path, require_revision(change.expected_revision), item)
    if isinstance(change, DeleteItem):
        namespace = require_namespace("namespace", change.namespace)
        path = path_of(namespace, require_id("key", change.key))
        return ItemChange(path, require_revision(change.expected_revision))
    raise TypeError(f"a change must be a PutItem or a DeleteItem, not {type(change).__name__}")


def _texts(change: PutItem | DeleteItem) -> list[str]:
    """Return the texts by whose vectors an item is found."""
    if isinstance(change, DeleteItem):
        return []
    if change.texts is None:
        texts: Sequence[str] = [text_of(change.item.value)]
    else:
        texts = require_texts("texts", change.texts)
    return [text for text in texts if text]
