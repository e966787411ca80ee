"""Find items of an encrypted long-term memory by their values, and the keys of all items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jazzmine._sync.long_term_memory.backend import ItemBackend
from jazzmine._compat.concurrency import sync_run_blocking as run_blocking
from jazzmine.encryption.items import ItemCodec, value_of
from jazzmine.encryption.used_keys import KeysFound
from jazzmine.errors import DecryptionError
from jazzmine.records.item_rows import (
    Cursor,
    ItemQuery,
    ItemRow,
    ItemVersion,
    Reads,
    cursor_of,
    path_text,
)
from jazzmine.records.json_values import contains

# Decrypting so many rows takes longer than passing them to a thread.
_FEW = 200

# The number of items that are read and decrypted at a time.
_READ_AT_ONCE = 500


def decrypted(
    codec: ItemCodec, rows: Sequence[ItemRow], reads: Reads = "items"
) -> Sequence[ItemRow]:
    """Return decrypted rows; see `ItemCodec.decrypted`."""
    if len(rows) > _FEW:
        # Decrypting them here would keep other calls waiting.
        return run_blocking(codec.decrypted, rows, reads)
    return codec.decrypted(rows, reads)


def matching(
    backend: ItemBackend,
    codec: ItemCodec,
    query: ItemQuery,
    where: Mapping[str, Any],
    limit: int | None,
    after: Cursor | None,
) -> Sequence[ItemRow]:
    """Return the items with matching values: each is read and decrypted."""
    found: list[ItemRow] = []
    everything = replace(query, where=None)
    while limit is None or len(found) < limit:
        rows = backend.list_items(everything, _READ_AT_ONCE, after)
        opened = items = decrypted(codec, rows, query.reads)
        if rows and query.reads == "vectors":
            # Their values are not among them.
            stored = backend.get_items(list(map(path_text, rows)))
            items = decrypted(codec, stored)
        chosen = {path_text(row) for row in items if contains(value_of(row), where)}
        found += [row for row in opened if path_text(row) in chosen]
        if len(rows) < _READ_AT_ONCE:
            break
        after = cursor_of(rows[-1])
    return found[:limit]


def iter_item_keys(
    backend: ItemBackend, codec: ItemCodec, *, rekeys: bool
) -> Iterator[KeysFound]:
    """Yield the keys of some items at a time, and those of their vectors.

    With `rekeys`, values of other keys are encrypted with the first one, unless the item is changed
    meanwhile.
    """
    cursor, size = None, backend.deleted_at_once
    rows: Sequence[ItemRow] = [()] * size
    while len(rows) == size:
        rows = backend.list_items(ItemQuery(reads="all"), size, cursor)
        cursor = cursor_of(rows[-1]) if rows else None
        vectors = [row for row in rows if row[-1] is not None]
        for kind, stored, key_id, rekeyed in (
            ("items", rows, codec.key_id, codec.rekeyed),
            ("vectors", vectors, codec.vector_key_id, codec.rekeyed_vector),
        ):
            versions: list[ItemVersion] = []
            refused: list[str] = []
            keys = list(map(key_id, stored))
            for row, key in zip(stored, keys, strict=True):
                try:
                    if rekeys and key != codec.keyring.first_id:
                        versions.append(rekeyed(row))
                except DecryptionError as error:
                    refused.append(str(error))
            if versions:
                backend.rewrite(versions)
            if stored:
                yield KeysFound(kind, Counter(keys), refused)
