"""All items of a store, for programs that move or compare whole stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from jazzmine._async.long_term_memory.store import LongTermMemoryStore
from jazzmine.records.item_paths import path_of
from jazzmine.records.item_rows import ItemChange, ItemDecoder, ItemQuery, StoredItem, cursor_of
from jazzmine.records.log import ANY

__all__ = ["iter_items", "restore_items"]


async def iter_items(
    store: LongTermMemoryStore, at: int, size: int
) -> AsyncIterator[list[StoredItem]]:
    """Yield all readable items in the order of their namespaces and keys.

    Args:
        store: an open store.
        at: when they must not have expired yet, in ms.
        size: how many are read at a time.
    """
    decoder, query = ItemDecoder(), ItemQuery(reads="all", at=at)
    rows = await store.backend.list_items(query, size, None)
    while rows:
        yield decoder.stored_items(rows)
        if len(rows) < size:
            break
        rows = await store.backend.list_items(query, size, cursor_of(rows[-1]))


async def restore_items(store: LongTermMemoryStore, items: Sequence[StoredItem]) -> None:
    """Store items with the times, the revisions and the vectors that they have.

    Args:
        store: an open store.
        items: at least one, each once.
    """
    await store.backend.restore([_change(item) for item in items])


def _change(item: StoredItem) -> ItemChange:
    return ItemChange(path_of(item.namespace, item.key), ANY, item, item.vector)
