"""Encryption of long-term memories: a back end that seals items before another one stores them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from jazzmine._async.long_term_memory.backend import ItemBackend
from jazzmine._compat.async_concurrency import run_blocking
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

    async def open(self) -> None:
        await self.inner.open()

    async def close(self) -> None:
        await self.inner.close()

    async def ping(self) -> None:
        await self.inner.ping()

    async def pending(self) -> list[str]:
        return await self.inner.pending()

    async def purge(self) -> None:
        await self.inner.purge()

    async def get_items(self, paths: Sequence[str]) -> Sequence[ItemRow]:
        return await self._opened(await self.inner.get_items(paths))

    async def apply(self, changes: Sequence[ItemChange]) -> Sequence[Outcome] | ItemConflict:
        return await self.inner.apply(list(map(self.seal.sealed, changes)))

    async def renew(self, renewals: Sequence[Renewal]) -> int:
        return await self.inner.renew(renewals)

    async def restore(self, changes: Sequence[ItemChange]) -> None:
        await self.inner.restore(list(map(self.seal.sealed, changes)))

    async def rewrite(self, versions: Sequence[ItemVersion]) -> None:
        await self.inner.rewrite(versions)

    async def list_items(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        if query.where:
            return await self._matching(query, query.where, limit, after)
        return await self._opened(await self.inner.list_items(query, limit, after), query.reads)

    async def _matching(
        self, query: ItemQuery, where: Mapping[str, Any], limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        """Return items by their values, which are sealed: each is read and opened."""
        found: list[ItemRow] = []
        everything = replace(query, where=None)
        while limit is None or len(found) < limit:
            rows = await self.inner.list_items(everything, _READ_AT_ONCE, after)
            opened = await self._opened(rows, query.reads)
            if rows and query.reads == "vectors":
                # Their values are not among them.
                items = await self.inner.get_items(list(map(path_text, rows)))
                matching = {
                    path_text(row)
                    for row in await self._opened(items)
                    if contains(value_of(row), where)
                }
                found += [row for row in opened if path_text(row) in matching]
            else:
                found += [row for row in opened if contains(value_of(row), where)]
            if len(rows) < _READ_AT_ONCE:
                break
            after = cursor_of(rows[-1])
        return found[:limit]

    async def list_namespaces(self, prefix: str, first: str, limit: int) -> Sequence[str]:
        return await self.inner.list_namespaces(prefix, first, limit)

    async def move_user(self, from_id: str, to_id: str) -> int:
        return await self.inner.move_user(from_id, to_id)

    async def erase(self, user_id: str, limit: int) -> int:
        return await self.inner.erase(user_id, limit)

    async def prune(self, limit: int) -> int:
        return await self.inner.prune(limit)

    async def iter_keys(self, *, reseals: bool) -> AsyncIterator[KeysFound]:
        """Yield by which keys the items are sealed, some at a time, and then their vectors.

        Args:
            reseals: whether what another key than the first sealed is sealed with that. An item
                that is changed meanwhile is left to that change. Or else what a key of the store
                has sealed is opened, to see whether it does.
        """
        seal = self.seal
        async for found in self._iter_keys("items", seal.key_id, seal.sealed_again, reseals):
            yield found
        async for found in self._iter_keys(
            "vectors", seal.vector_key_id, seal.vector_sealed_again, reseals
        ):
            yield found

    async def _iter_keys(
        self,
        reads: Literal["items", "vectors"],
        key_id: Callable[[ItemRow], str | None],
        sealed_again: Callable[[ItemRow], ItemVersion],
        reseals: bool,
    ) -> AsyncIterator[KeysFound]:
        keyring, cursor, size = self.seal.keyring, None, self.deleted_at_once
        first_id = keyring.first_id
        rows: Sequence[ItemRow] = [()] * size
        while len(rows) == size:
            rows = await self.inner.list_items(ItemQuery(reads=reads), size, cursor)
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
                await self.inner.rewrite(versions)
            if rows:
                cursor = cursor_of(rows[-1])
                yield KeysFound(reads, Counter(map(key_id, rows)), refused)

    async def _opened(self, rows: Sequence[ItemRow], reads: Reads = "items") -> Sequence[ItemRow]:
        if len(rows) > _FEW:
            # Opening them here would keep other calls waiting.
            return await run_blocking(self.seal.opened, rows, reads)
        return self.seal.opened(rows, reads)
