"""Functions for programs that move, repair or check whole stores, such as the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeAlias

from jazzmine._async.long_term_memory.encrypted import rekeyed_items
from jazzmine._async.long_term_memory.store import LongTermMemoryStore
from jazzmine._async.message_store.rekeying import rekeyed_records
from jazzmine._async.message_store.store import MessageStore
from jazzmine._async.working_memory.rekeying import rekeyed_states
from jazzmine._async.working_memory.store import WorkingMemoryStore
from jazzmine.encryption.records import NO_SEARCH
from jazzmine.encryption.used_keys import Rekeyed
from jazzmine.errors import ConfigurationError
from jazzmine.records.base import Record, RecordKind, Snapshot
from jazzmine.records.hook_arguments import Turn
from jazzmine.records.item_paths import path_of
from jazzmine.records.item_rows import ItemChange, ItemDecoder, ItemQuery, StoredItem, cursor_of
from jazzmine.records.log import ANY
from jazzmine.search.query import SearchState
from jazzmine.search.vectors import length_of

__all__ = [
    "AnyStore",
    "fill_search",
    "iter_items",
    "iter_records",
    "make_search",
    "pending_changes",
    "purge",
    "rekeyed",
    "restore_items",
    "search_state",
    "store_records",
    "vector_lengths",
]

# How many vectors are read at a time.
_VECTORS_AT_ONCE = 1_000

AnyStore: TypeAlias = MessageStore | WorkingMemoryStore | LongTermMemoryStore


async def pending_changes(store: AnyStore) -> list[str]:
    """Return the changes that opening a store would make; the store need not be open."""
    return await store.backend.pending()


async def purge(store: AnyStore) -> None:
    """Remove the raw bytes of deleted or replaced records from files."""
    await store.backend.purge()


# All records


async def iter_records(
    store: MessageStore, kinds: Sequence[RecordKind], size: int
) -> AsyncIterator[tuple[RecordKind, list[Any]]]:
    """Yield all readable records of some kinds, each in the order in which ids were first stored.

    On PostgreSQL they are those of one moment.

    Args:
        store: an open store.
        kinds: the kinds of the records, in this order.
        size: the largest number of rows to read at a time.
    """
    async for kind, rows in store.backend.iter_stored(kinds, size):
        yield kind, store._decoder_of(kind).records(rows)


async def store_records(store: MessageStore, kind: RecordKind, records: Sequence[Record]) -> None:
    """Store valid records, in place of the records with the same ids; each id is given once."""
    given: dict[str, Any] = {kind: list(map(Snapshot, records))}
    await store._put(Turn(**given))


async def iter_items(
    store: LongTermMemoryStore, at: int, size: int
) -> AsyncIterator[list[StoredItem]]:
    """Yield all readable items in the order of their namespaces and keys.

    Args:
        store: an open store.
        at: items that expired before this time are left out, in ms.
        size: the number of items to read at a time.
    """
    decoder, query = ItemDecoder(), ItemQuery(reads="all", at=at)
    rows = await store._rows(query, size, None)
    while rows:
        yield decoder.stored_items(rows)
        if len(rows) < size:
            break
        rows = await store._rows(query, size, cursor_of(rows[-1]))


async def vector_lengths(store: LongTermMemoryStore) -> Counter[int]:
    """Return how many items have vectors of each length (their number of dimensions)."""
    lengths: Counter[int] = Counter()
    query = ItemQuery(reads="vectors")
    rows = await store._rows(query, _VECTORS_AT_ONCE, None)
    while rows:
        lengths.update(length_of(row[2]) for row in rows)
        rows = await store._rows(query, _VECTORS_AT_ONCE, cursor_of(rows[-1]))
    return lengths


async def restore_items(store: LongTermMemoryStore, items: Sequence[StoredItem]) -> None:
    """Store items with their times, revisions and vectors.

    Args:
        store: an open store.
        items: at least one, each once.
    """
    changes = [
        ItemChange(path_of(item.namespace, item.key), ANY, item, item.vector) for item in items
    ]
    await store.backend.restore(list(map(store._encoded, changes)))


# Keys


def rekeyed(store: AnyStore) -> AsyncIterator[Rekeyed]:
    """Encrypt all values of other keys with the first one, and yield what became of some at a time.

    Args:
        store: an open store with keys. A value is replaced only in the very version that was
            decrypted.
    """
    if isinstance(store, WorkingMemoryStore):
        return rekeyed_states(store)
    assert store.codec is not None
    if isinstance(store, LongTermMemoryStore):
        return rekeyed_items(store.backend, store.codec)
    return rekeyed_records(store, store.codec)


# The search index of messages


async def search_state(store: MessageStore) -> SearchState | None:
    """Return the state of the index; None without one."""
    return await store.backend.search_state()


async def make_search(store: MessageStore, language: str | None) -> None:
    """Make an index for a language, in place of one for another language; None removes it.

    Raises:
        ConfigurationError: the store is encrypted, or has no search.
    """
    if store.codec is not None:
        raise ConfigurationError(NO_SEARCH)
    await store.backend.make_search(language)


async def fill_search(store: MessageStore, size: int) -> int | None:
    """Index up to `size` messages; return how many, or None if the index is complete."""
    return await store.backend.fill_search(size)
