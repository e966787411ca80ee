"""The long-term memory: its public methods, and the checks that all back ends share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jazzmine._async.long_term_memory.items import StoredItems
from jazzmine._async.operation import operation, step
from jazzmine.records.arguments import (
    optional_id,
    require_choice,
    require_count,
    require_id,
    require_metadata,
    require_namespace,
)
from jazzmine.records.base import snapshot
from jazzmine.records.item_paths import (
    after_items,
    end_of,
    namespace_path,
    path_of,
    split_namespace,
)
from jazzmine.records.item_rows import Cursor, ItemQuery, Order, Renewal, cursor_of
from jazzmine.records.items import DeleteItem, MemoryItem, PutItem
from jazzmine.records.log import ANY, AnyMessage
from jazzmine.search.vectors import Embed

# How many namespaces are read at a time.
_AT_ONCE = 1_000


class LongTermMemoryStore(StoredItems):
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

    # One item, or several

    @operation("items")
    async def get(self, namespace: Sequence[str], key: str) -> MemoryItem | None:
        """Return the item, or None."""
        path = path_of(require_namespace("namespace", namespace), require_id("key", key))
        rows = await self._decrypted(await self._rows_at([path]))
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
            user_id=optional_id("user_id", user_id),
            source_message_id=optional_id("source_message_id", source_message_id),
            order=require_choice("order", order, Order),
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
        user = optional_id("user_id", user_id)
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
        user = optional_id("user_id", user_id)
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
