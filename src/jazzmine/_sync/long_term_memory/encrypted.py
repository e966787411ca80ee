"""Find items of an encrypted long-term memory by their values, and encrypt all of them anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jazzmine._sync.long_term_memory.backend import ItemBackend
from jazzmine._compat.concurrency import sync_run_blocking as run_blocking
from jazzmine.encryption.items import ItemCodec, value_of
from jazzmine.encryption.used_keys import Rekeyed
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


def rekeyed_items(backend: ItemBackend, codec: ItemCodec) -> Iterator[Rekeyed]:
    """Encrypt items and vectors of other keys with the first one, and yield the result of some."""
    cursor, size, first_id = None, backend.deleted_at_once, codec.keyring.first_id
    rows: Sequence[ItemRow] = [()] * size
    while len(rows) == size:
        rows = backend.list_items(ItemQuery(reads="all"), size, cursor)
        cursor = cursor_of(rows[-1]) if rows else None
        vectors = [row for row in rows if row[-1] is not None]
        for kind, stored, key_id, rekeyed in (
            ("items", rows, codec.key_id, codec.rekeyed),
            ("vectors", vectors, codec.vector_key_id, codec.rekeyed_vector),
        ):
            others = [row for row in stored if key_id(row) != first_id]
            versions: list[ItemVersion] = []
            refused: list[str] = []
            for row in others:
                try:
                    versions.append(rekeyed(row))
                except DecryptionError as error:
                    refused.append(str(error))
            if versions:
                backend.rewrite(versions)
            if stored:
                yield Rekeyed(kind, len(stored), len(stored) - len(others), refused)
