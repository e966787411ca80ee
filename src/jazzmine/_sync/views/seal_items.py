"""Encryption of long-term memories: a back end that seals items before another one stores them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from jazzmine._sync.long_term_memory.backend import ItemBackend
from jazzmine._compat.sync_concurrency import run_blocking
from jazzmine.config import BackendConfig
from jazzmine.encryption.found import KeysFound
from jazzmine.encryption.items import ItemSeal, value_of
from jazzmine.errors import DecryptionError
from jazzmine.records.item_rows import (
    Cursor,
    ItemChange,
    ItemConflict,
    ItemQuery,
    ItemRow,
    ItemVersion,
    Outcome,
    Reads,
    Renewal,
    cursor_of,
    path_text,
)
from jazzmine.records.json_values import contains

__all__ = ["SealedItems", "sealed_items"]

# Opening so many rows takes longer than passing them to a thread.
_FEW = 200

# So many items are read and opened at a time, to find some by their values.
_READ_AT_ONCE = 500


def sealed_items(backend: ItemBackend, config: BackendConfig) -> ItemBackend:
    """Return a back end that seals what it is given, if a configuration has keys."""
    if config.keyring is None:
        return backend
    return SealedItems(backend, ItemSeal(config.keyring, config.encryption_accepts_plain))


class SealedItems(ItemBackend):
    """Seals items before another back end stores them, and opens the rows that it returns.

    Args:
        backend: where the sealed items are.
        seal: seals and opens them.
    """

    def __init__(self, backend: ItemBackend, seal: ItemSeal) -> None:
        self.inner = backend
        self.seal = seal
        self.system_name = backend.system_name
        self.deleted_at_once: int = backend.deleted_at_once  # type: ignore[misc]

    def limited_to(self, user_id: str) -> SealedItems:
        """Return the same, before a back end that is limited to a user."""
        return SealedItems(self.inner.limited_to(user_id), self.seal)

    def open(self) -> None:
        self.inner.open()

    def close(self) -> None:
        self.inner.close()

    def ping(self) -> None:
        self.inner.ping()

    def pending(self) -> list[str]:
        return self.inner.pending()

    def purge(self) -> None:
        self.inner.purge()

    def get_items(self, paths: Sequence[str]) -> Sequence[ItemRow]:
        return self._opened(self.inner.get_items(paths))

    def apply(self, changes: Sequence[ItemChange]) -> Sequence[Outcome] | ItemConflict:
        return self.inner.apply(list(map(self.seal.sealed, changes)))

    def renew(self, renewals: Sequence[Renewal]) -> int:
        return self.inner.renew(renewals)

    def restore(self, changes: Sequence[ItemChange]) -> None:
        self.inner.restore(list(map(self.seal.sealed, changes)))

    def rewrite(self, versions: Sequence[ItemVersion]) -> None:
        self.inner.rewrite(versions)

    def list_items(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        if query.where:
            return self._matching(query, query.where, limit, after)
        return self._opened(self.inner.list_items(query, limit, after), query.reads)

    def _matching(
        self, query: ItemQuery, where: Mapping[str, Any], limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        """Return items by their values, which are sealed: each is read and opened."""
        found: list[ItemRow] = []
        everything = replace(query, where=None)
        while limit is None or len(found) < limit:
            rows = self.inner.list_items(everything, _READ_AT_ONCE, after)
            opened = self._opened(rows, query.reads)
            if rows and query.reads == "vectors":
                # Their values are not among them.
                items = self.inner.get_items(list(map(path_text, rows)))
                matching = {
                    path_text(row)
                    for row in self._opened(items)
                    if contains(value_of(row), where)
                }
                found += [row for row in opened if path_text(row) in matching]
            else:
                found += [row for row in opened if contains(value_of(row), where)]
            if len(rows) < _READ_AT_ONCE:
                break
            after = cursor_of(rows[-1])
        return found[:limit]

    def list_namespaces(self, prefix: str, first: str, limit: int) -> Sequence[str]:
        return self.inner.list_namespaces(prefix, first, limit)

    def move_user(self, from_id: str, to_id: str) -> int:
        return self.inner.move_user(from_id, to_id)

    def erase(self, user_id: str, limit: int) -> int:
        return self.inner.erase(user_id, limit)

    def prune(self, limit: int) -> int:
        return self.inner.prune(limit)

    def iter_keys(self, *, reseals: bool) -> Iterator[KeysFound]:
        """Yield by which keys the items are sealed, some at a time, and then their vectors.

        Args:
            reseals: whether what another key than the first sealed is sealed with that. An item
                that is changed meanwhile is left to that change. Or else what a key of the store
                has sealed is opened, to see whether it does.
        """
        seal = self.seal
        for found in self._iter_keys("items", seal.key_id, seal.sealed_again, reseals):
            yield found
        for found in self._iter_keys(
            "vectors", seal.vector_key_id, seal.vector_sealed_again, reseals
        ):
            yield found

    def _iter_keys(
        self,
        reads: Literal["items", "vectors"],
        key_id: Callable[[ItemRow], str | None],
        sealed_again: Callable[[ItemRow], ItemVersion],
        reseals: bool,
    ) -> Iterator[KeysFound]:
        keyring, cursor, size = self.seal.keyring, None, self.deleted_at_once
        first_id = keyring.first_id
        rows: Sequence[ItemRow] = [()] * size
        while len(rows) == size:
            rows = self.inner.list_items(ItemQuery(reads=reads), size, cursor)
            versions: list[ItemVersion] = []
            refused: list[str] = []
            for row in rows:
                is_wanted = key_id(row) != first_id if reseals else key_id(row) in keyring.ids
                try:
                    if is_wanted:
                        versions.append(sealed_again(row))
                except DecryptionError as error:
                    refused.append(str(error))
            if versions and reseals:
                self.inner.rewrite(versions)
            if rows:
                cursor = cursor_of(rows[-1])
                yield KeysFound(reads, Counter(map(key_id, rows)), refused)

    def _opened(self, rows: Sequence[ItemRow], reads: Reads = "items") -> Sequence[ItemRow]:
        if len(rows) > _FEW:
            # Opening them here would keep other calls waiting.
            return run_blocking(self.seal.opened, rows, reads)
        return self.seal.opened(rows, reads)
