"""The long-term memory: its public methods, and the checks that all back ends share."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Literal

from jazzmine._async.long_term_memory.backend import ItemBackend
from jazzmine._async.long_term_memory.encrypted import decrypted, matching
from jazzmine._async.message_store.deletion import step
from jazzmine._async.operation import operation
from jazzmine._async.store import Store
from jazzmine._compat.concurrency import async_run_given as run_given
from jazzmine.deadline import begin_call
from jazzmine.encryption.items import ItemCodec
from jazzmine.encryption.sampled import SAMPLED, require_right_keys
from jazzmine.records.arguments import (
    ITEM_ORDERS,
    require_choice,
    require_count,
    require_id,
    require_metadata,
    require_namespace,
    require_revision,
    require_text,
    require_texts,
)
from jazzmine.records.base import snapshot
from jazzmine.records.item_paths import (
    after_items,
    end_of,
    namespace_path,
    path_of,
    split_namespace,
)
from jazzmine.records.item_rows import (
    Cursor,
    ItemChange,
    ItemConflict,
    ItemDecoder,
    ItemQuery,
    ItemRow,
    Order,
    Reads,
    Renewal,
    Stored,
    cursor_of,
    item_conflict,
    path_text,
)
from jazzmine.records.items import DeleteItem, FoundItem, MemoryItem, PutItem
from jazzmine.records.log import ANY, AnyMessage
from jazzmine.search.ranking import ranked_by_words, text_of
from jazzmine.search.vectors import Embed, Ranking, fused, packed_vectors, ranked_by_vector

__all__ = ["LongTermMemoryStore"]

# Among how many items, the newest ones, a search looks for words.
_SEARCHED = 2_000

logger: logging.Logger = logging.getLogger(__name__)

# How many vectors, namespaces or expired items are read or deleted at a time.
_AT_ONCE = 1_000


class LongTermMemoryStore(Store[ItemBackend]):
    """Items that an agent keeps beyond one conversation: facts, files, what a framework stores.

    On every back end:

    - An item is found by its namespace and key. It has another revision after each change, and a
      key never has the same one again, also after it was deleted.
    - A write that returned is durable, and each may be repeated. One that raised changed nothing,
      except that after `StoreUnavailableError` it is not known whether it took effect.
    - An item is not there any more from its `expires_at` on, by the store's clock.
    - What a method returns belongs to the caller.

    Every method raises `TypeError` for an argument of another type, `ValidationError` for a value
    that the back ends cannot hold or an empty key or part of a namespace, `ValueError` for a number
    out of range, `StoreClosedError` after `close()`, `StoreUnavailableError` when the server cannot
    be reached, and `OSError` when a file cannot be read or written.

    Args:
        backend: where the items are kept.
        embed: returns a vector for each of some texts; it may be slow, and runs in a thread where
            it would block. Items are then searched by their vectors as well.
        codec: encrypts the items; None in a store without keys.
    """

    scope = "jazzmine.long_term_memory"

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

    @classmethod
    async def initialize(
        cls,
        config: Mapping[str, object] | str | os.PathLike[str] | None = None,
        *,
        embed: Embed | None = None,
    ) -> LongTermMemoryStore:
        """Open a store.

        Args:
            config: a mapping with `storage` ("memory" by default) and the options of that back
                end, a URL such as `sqlite:agent.db`, or a path such as `Path("agent.db")`; None
                takes the URL in the environment variable JAZZMINE_LONG_TERM_MEMORY, or else
                `memory:`.
            embed: returns a vector for each of some texts, for `search_items`.

        Raises:
            ConfigurationError: the configuration has an unknown key or a wrong value.
            ImportError: the back end's driver is not installed.
            StoreUnavailableError: the server cannot be reached.
            OSError: the file cannot be read.
        """
        # Only a program that opens a store pays for this import.
        from jazzmine._async.factory import new_long_term_memory
        from jazzmine.config import long_term_memory_config

        store: LongTermMemoryStore = new_long_term_memory(long_term_memory_config(config), embed)
        return await store._initialized()

    async def _opened(self) -> None:
        if self.codec is not None:
            query = ItemQuery(order="updated", reads="values")
            rows = await self.backend.list_items(query, SAMPLED, None)
            read = self.codec.decrypted
            require_right_keys(
                self.codec.keyring, rows, self.codec.key_id, lambda row: read([row], "values")
            )

    def scoped(self, *, user_id: str) -> LongTermMemoryStore:
        """Return a store that sees and changes this user's items alone.

        It uses the same connections, and closing it closes nothing else; make one for each request.
        Items of other users have the same results as items that are not stored.

        Args:
            user_id: whose items.

        Raises:
            ScopeError: this store is scoped to another user.
        """
        from jazzmine._async.factory import view_of_long_term_memory

        view: LongTermMemoryStore = view_of_long_term_memory(self, require_id("user_id", user_id))
        return view

    # One item, or several

    @operation("items")
    async def get(self, namespace: Sequence[str], key: str) -> MemoryItem | None:
        """Return the item, or None."""
        path = path_of(require_namespace("namespace", namespace), require_id("key", key))
        rows = await self._decrypted(await self.backend.get_items([path]))
        return self._decoder.item(rows[0]) if rows else None

    @operation("items")
    async def get_many(self, keys: Iterable[tuple[Sequence[str], str]]) -> list[MemoryItem | None]:
        """Return an item or None for each pair of a namespace and a key, in their order.

        One that cannot be read is logged, and None here.
        """
        paths = [
            path_of(require_namespace("namespace", namespace), require_id("key", key))
            for namespace, key in keys
        ]
        if not paths:
            return []
        found = await self._items_at(paths)
        return [found.get(path) for path in paths]

    @operation("items")
    async def put(
        self, item: MemoryItem, *, expected_revision: int | AnyMessage | None = ANY
    ) -> MemoryItem:
        """Store an item, in place of the one with its namespace and key if there is one.

        Args:
            item: its `created_at`, `updated_at` and `revision` are not used.
            expected_revision: that of the item that the caller has read, or None if there must be
                none; by default any.

        Returns:
            The item with its times and its new revision.

        Raises:
            ConflictError: the item has another revision, and was not changed.
            RecordTooLargeError: the back end cannot hold it.
        """
        [stored] = await self._apply([PutItem(item, expected_revision)])
        assert isinstance(stored, MemoryItem)
        return stored

    @operation("items")
    async def delete(
        self,
        namespace: Sequence[str],
        key: str,
        *,
        expected_revision: int | AnyMessage | None = ANY,
    ) -> bool:
        """Delete an item; return whether it was there.

        Args:
            namespace: the namespace of the item.
            key: its key.
            expected_revision: as in `put`.

        Raises:
            ConflictError: the item has another revision, and was not deleted.
        """
        [deleted] = await self._apply([DeleteItem(namespace, key, expected_revision)])
        return bool(deleted)

    @operation("items")
    async def apply(self, changes: Iterable[PutItem | DeleteItem]) -> list[MemoryItem | bool]:
        """Make some changes of different items, all of them or none.

        Returns:
            For each `PutItem` the item as it is stored, for each `DeleteItem` whether it was there.

        Raises:
            ConflictError: an item has another revision than its change expects.
            ValueError: two changes are of one item.
            RecordTooLargeError: the back end cannot hold one of them, or all in one transaction.
        """
        return await self._apply(list(changes))

    @operation("items")
    async def renew(self, items: Iterable[MemoryItem]) -> int:
        """Set `expires_at` of items in one step; their revisions and all else stay.

        An item that was changed or deleted since it was read, or has expired, is left alone.

        Args:
            items: items as they were read, but for the `expires_at` that they get.

        Returns:
            How many items got theirs.

        Raises:
            ValueError: one item is given twice.
        """
        records = [snapshot(item, MemoryItem).record for item in items]
        renewals = [
            Renewal(path_of(record.namespace, record.key), record.revision, record.expires_at)
            for record in records
        ]
        if len({renewal.path for renewal in renewals}) < len(renewals):
            raise ValueError("one item is given twice; nothing was changed")
        return await self.backend.renew(renewals) if renewals else 0

    # Lists

    @operation("items")
    async def list_items(
        self,
        prefix: Sequence[str] = (),
        *,
        where: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        source_message_id: str | None = None,
        order: Order = "key",
        limit: int | None = None,
        after: MemoryItem | None = None,
        with_data: bool = True,
    ) -> list[MemoryItem]:
        """Return a page of items.

        Args:
            prefix: the first parts of their namespaces; none is all items.
            where: only those whose `value` has these keys with equal values (1 is 1.0, true is not
                1); None as a value wants the key to be there with null.
            user_id: only those of a user.
            source_message_id: only those that were taken from a message.
            order: "key" is by namespace, part by part, and then by key; "updated" is newest first.
            limit: how many at most; None is no limit.
            after: the last item of the page before, which may be deleted by now.
            with_data: whether their `data` is read; it is None in all of them otherwise.
        """
        query = ItemQuery(
            prefix=namespace_path(require_namespace("prefix", prefix, 0)),
            where=require_metadata("where", where),
            user_id=None if user_id is None else require_id("user_id", user_id),
            source_message_id=None
            if source_message_id is None
            else require_id("source_message_id", source_message_id),
            order=require_choice("order", order, ITEM_ORDERS),
            reads="items" if with_data else "values",
        )
        size = None if limit is None else require_count("limit", limit)
        cursor = None
        if after is not None:
            last = snapshot(after, MemoryItem).record
            path = path_of(last.namespace, last.key)
            cursor = Cursor(path, last.updated_at, last.revision)
        if size == 0:
            return []
        items: list[MemoryItem] = []
        while True:
            # Further items take the place of those that cannot be read.
            wanted = None if size is None else size - len(items)
            rows = await self._rows(query, wanted, cursor)
            items += self._decoder.items(rows)
            if len(items) == size or len(rows) != wanted:
                return items
            cursor = cursor_of(rows[-1])

    @operation("namespaces")
    async def list_namespaces(
        self,
        prefix: Sequence[str] = (),
        *,
        suffix: Sequence[str] = (),
        max_depth: int | None = None,
        user_id: str | None = None,
        limit: int | None = None,
        after: Sequence[str] | None = None,
    ) -> list[tuple[str, ...]]:
        """Return the namespaces that have items, in order, part by part.

        Args:
            prefix: their first parts.
            suffix: their last parts.
            max_depth: longer ones are cut off to so many parts, and returned once.
            user_id: only those with items of a user.
            limit: how many at most; None is no limit.
            after: the last namespace of the page before.
        """
        below = namespace_path(require_namespace("prefix", prefix, 0))
        ending = require_namespace("suffix", suffix, 0)
        depth = None if max_depth is None else require_count("max_depth", max_depth, 1)
        size = None if limit is None else require_count("limit", limit)
        user = None if user_id is None else require_id("user_id", user_id)
        first = below
        if after is not None:
            last = namespace_path(require_namespace("after", after))
            # What is deeper than the last one was cut off to it.
            first = max(first, end_of(last) if depth == len(after) else after_items(last))
        namespaces: dict[tuple[str, ...], None] = {}
        # If some are left out, a page is larger than what is still wanted.
        count = _AT_ONCE if size is None or ending or depth else min(size, _AT_ONCE)
        while size is None or len(namespaces) < size:
            found = await self.backend.list_namespaces(below, first, count, user)
            for namespace in map(split_namespace, found):
                if namespace[len(namespace) - len(ending) :] == ending:
                    namespaces[namespace[:depth]] = None
            if len(found) < count:
                break
            first = after_items(found[-1])
        return list(namespaces)[:size]

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

    # Erasure and retention

    @operation("items")
    async def erase_user(self, user_id: str) -> int:
        """Delete all items of a user, expired ones too, in several transactions.

        A call that failed has deleted a part; repeated, it deletes the rest, and what has come
        meanwhile.

        Args:
            user_id: whose items.

        Returns:
            How many were deleted.
        """
        owner = require_id("user_id", user_id)
        limit = self.backend.deleted_at_once
        erased, count = 0, limit
        while count >= limit:
            async with step():
                count = await self.backend.erase(owner, limit)
            erased += count
            self.require_open()
        await self.backend.purge()
        return erased

    @operation("items")
    async def move_user(self, from_user_id: str, to_user_id: str) -> int:
        """Make all items of one user another user's, as when a guest signs in.

        Namespaces, revisions and times stay. Repeated, it moves what has come meanwhile.

        Args:
            from_user_id: whose items.
            to_user_id: whose they are afterwards.

        Returns:
            How many items were moved.
        """
        source = require_id("from_user_id", from_user_id)
        target = require_id("to_user_id", to_user_id)
        return 0 if source == target else await self.backend.move_user(source, target)

    @operation("items")
    async def prune_expired(self, limit: int = 1000, *, user_id: str | None = None) -> int:
        """Delete expired items, those first that have expired first.

        Args:
            limit: how many at most.
            user_id: only those of a user.

        Returns:
            How many were deleted.
        """
        user = None if user_id is None else require_id("user_id", user_id)
        wanted = require_count("limit", limit)
        pruned = 0
        while pruned < wanted:
            chosen = min(wanted - pruned, self.backend.deleted_at_once)
            async with step():
                count = await self.backend.prune(chosen, user)
            pruned += count
            if count < chosen:
                break
            self.require_open()
        return pruned

    # What several methods do

    async def _items_at(self, paths: Sequence[str]) -> dict[str, MemoryItem]:
        rows = await self._decrypted(await self.backend.get_items(list(dict.fromkeys(paths))))
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
        """Return a change as it is stored."""
        return change if self.codec is None else self.codec.encrypted(change)

    async def _apply(self, changes: Sequence[PutItem | DeleteItem]) -> list[MemoryItem | bool]:
        prepared = [_prepared(change) for change in changes]
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

    async def _vectors(self, texts: list[str]) -> list[Any]:
        """Return the vector of each text."""
        if not texts:
            return []
        assert self.embed is not None
        vectors = list(await run_given(self.embed, texts))
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
