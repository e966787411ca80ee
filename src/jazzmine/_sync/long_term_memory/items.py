"""How a long-term memory stores and reads its items: checks, vectors and encryption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from jazzmine._sync.long_term_memory.backend import ItemBackend
from jazzmine._sync.long_term_memory.encrypted import decrypted, matching
from jazzmine._sync.store import Store
from jazzmine._compat.concurrency import sync_run_given as run_given
from jazzmine.deadline import begin_call
from jazzmine.encryption.items import ItemCodec
from jazzmine.encryption.used_keys import SAMPLED, require_right_keys
from jazzmine.records.arguments import (
    require_id,
    require_namespace,
    require_revision,
    require_texts,
)
from jazzmine.records.base import snapshot
from jazzmine.records.item_paths import path_of
from jazzmine.records.item_rows import (
    Cursor,
    ItemChange,
    ItemConflict,
    ItemDecoder,
    ItemQuery,
    ItemRow,
    Reads,
    Stored,
    item_conflict,
)
from jazzmine.records.items import DeleteItem, MemoryItem, PutItem
from jazzmine.search.ranking import text_of
from jazzmine.search.vectors import Embed, packed_vectors

__all__ = ["StoredItems"]


class StoredItems(Store[ItemBackend]):
    """Stores and reads the items of a long-term memory.

    Args:
        backend: where the items are kept.
        embed: returns a vector for each of some texts.
        codec: encrypts the items; None in a store without keys.
    """

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

    def _opened(self) -> None:
        if self.codec is not None:
            query = ItemQuery(order="updated", reads="values")
            rows = self.backend.list_items(query, SAMPLED, None)
            read = self.codec.decrypted
            require_right_keys(
                self.codec.keyring, rows, self.codec.key_id, lambda row: read([row], "values")
            )

    def _rows_at(self, paths: Sequence[str]) -> Sequence[ItemRow]:
        """Return the stored items at different paths, as the back end returns them."""
        return self.backend.get_items(paths)

    def _items_at(self, paths: Sequence[str]) -> dict[str, MemoryItem]:
        rows = self._decrypted(self._rows_at(list(dict.fromkeys(paths))))
        items = self._decoder.items(rows)
        return {path_of(item.namespace, item.key): item for item in items}

    def _rows(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        """Return a page of items, decrypted."""
        if self.codec is not None and query.where:
            return matching(self.backend, self.codec, query, query.where, limit, after)
        rows = self.backend.list_items(query, limit, after)
        return self._decrypted(rows, query.reads)

    def _decrypted(
        self, rows: Sequence[ItemRow], reads: Reads = "items"
    ) -> Sequence[ItemRow]:
        return rows if self.codec is None else decrypted(self.codec, rows, reads)

    def _encoded(self, change: ItemChange) -> ItemChange:
        """Return a change as it is stored."""
        return change if self.codec is None else self.codec.encrypted(change)

    def _apply(self, changes: Sequence[PutItem | DeleteItem]) -> list[MemoryItem | bool]:
        prepared = [_prepared(change) for change in changes]
        if len({change.path for change in prepared}) < len(prepared):
            raise ValueError("two changes are of one item; nothing was changed")
        if not prepared:
            return []
        if self.embed is not None:
            prepared = self._with_vectors(changes, prepared)
        outcomes = self.backend.apply(list(map(self._encoded, prepared)))
        if isinstance(outcomes, ItemConflict):
            conflict = prepared[outcomes.index]
            raise item_conflict(conflict.path, conflict.expected, outcomes.revision)
        return [
            change.item.model_copy(update=outcome._asdict())
            if change.item is not None and isinstance(outcome, Stored)
            else bool(outcome)
            for change, outcome in zip(prepared, outcomes, strict=True)
        ]

    def _with_vectors(
        self, given: Sequence[PutItem | DeleteItem], changes: Sequence[ItemChange]
    ) -> list[ItemChange]:
        texts = list(map(_texts, given))
        vectors = iter(self._vectors([text for some in texts for text in some]))
        return [
            replace(change, vector=packed_vectors(islice(vectors, len(some))))
            for change, some in zip(changes, texts, strict=True)
        ]

    def _vectors(self, texts: list[str]) -> list[Any]:
        """Return the vector of each text."""
        if not texts:
            return []
        assert self.embed is not None
        vectors = list(run_given(self.embed, texts))
        begin_call()  # the user's function takes as long as it does
        if len(vectors) != len(texts):
            raise ValueError(f"embed returned {len(vectors)} vectors for {len(texts)} texts")
        return vectors


def _prepared(change: PutItem | DeleteItem) -> ItemChange:
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
