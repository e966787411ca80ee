"""One user's view of a long-term memory: it asks the store about that user's items alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from jazzmine._async.long_term_memory.store import LongTermMemoryStore
from jazzmine._async.operation import composed, operation
from jazzmine._async.view import View
from jazzmine.errors import ConflictError
from jazzmine.records.arguments import require_id, require_namespace, require_revision
from jazzmine.records.base import snapshot
from jazzmine.records.item_paths import path_of
from jazzmine.records.item_rows import (
    ItemRow,
    is_expected,
    item_conflict,
    path_text,
    row_owner,
    row_revision,
)
from jazzmine.records.items import DeleteItem, FoundItem, MemoryItem, PutItem
from jazzmine.records.log import ANY, AnyMessage
from jazzmine.records.owners import id_taken, require_own

__all__ = ["ScopedLongTermMemoryStore"]

# How often a change is made again whose item somebody else has changed meanwhile.
_MOST_ATTEMPTS = 100


class ScopedLongTermMemoryStore(View[LongTermMemoryStore], LongTermMemoryStore):
    """A long-term memory that sees and changes one user's items.

    An item of another user has the same results as one that is not stored, and none can be stored
    in its place. Whose the items of a change are is read before, and the change is made only if
    they have the same revisions still.

    Args:
        store: the store, which a view neither opens nor closes.
        user_id: the user, who becomes the owner of what is put.
    """

    def __init__(self, store: LongTermMemoryStore, user_id: str) -> None:
        super().__init__(store, user_id)
        self.embed = store.embed

    def scoped(self, *, user_id: str) -> LongTermMemoryStore:
        """Return another view of the same user."""
        return self._store.scoped(user_id=self._own(require_id("user_id", user_id)))

    # One item, or several

    @operation("items")
    async def get(self, namespace: Sequence[str], key: str) -> MemoryItem | None:
        """Return the item if it is the user's, or None."""
        path = path_of(require_namespace("namespace", namespace), require_id("key", key))
        rows = await self._store.backend.get_items([path])
        own = await self._store._decrypted([row for row in rows if self._is_own(row)])
        return self._store._decoder.item(own[0]) if own else None

    @operation("items")
    async def get_many(self, keys: Iterable[tuple[Sequence[str], str]]) -> list[MemoryItem | None]:
        """Return an item of the user or None for each pair of a namespace and a key."""
        paths = [
            path_of(require_namespace("namespace", namespace), require_id("key", key))
            for namespace, key in keys
        ]
        if not paths:
            return []
        rows = await self._store.backend.get_items(list(dict.fromkeys(paths)))
        own = await self._store._decrypted([row for row in rows if self._is_own(row)])
        items = self._store._decoder.items(own)
        found = {path_of(item.namespace, item.key): item for item in items}
        return [found.get(path) for path in paths]

    @composed
    async def put(
        self, item: MemoryItem, *, expected_revision: int | AnyMessage | None = ANY
    ) -> MemoryItem:
        """Store an item of the user."""
        [stored] = await self._applied([PutItem(item, expected_revision)])
        assert isinstance(stored, MemoryItem)
        return stored

    @composed
    async def delete(
        self,
        namespace: Sequence[str],
        key: str,
        *,
        expected_revision: int | AnyMessage | None = ANY,
    ) -> bool:
        """Delete an item of the user; return whether it was there."""
        [deleted] = await self._applied([DeleteItem(namespace, key, expected_revision)])
        return bool(deleted)

    @composed
    async def apply(self, changes: Iterable[PutItem | DeleteItem]) -> list[MemoryItem | bool]:
        """Make some changes of different items of the user, all of them or none."""
        return await self._applied(list(changes))

    async def _applied(self, changes: Sequence[PutItem | DeleteItem]) -> list[MemoryItem | bool]:
        """Make changes on condition that what is stored is what was found to be the user's."""
        given = [self._prepared(change) for change in changes]
        attempts = 0
        while True:
            attempts += 1
            conditional = await self._conditional(given)
            try:
                made = iter(await self._store.apply([one for one in conditional if one]))
            except ConflictError:  # somebody was quicker: it is looked at again
                if attempts == _MOST_ATTEMPTS:
                    raise
            else:
                return [next(made) if one else False for one in conditional]

    async def _conditional(self, given: Sequence[_Prepared]) -> list[PutItem | DeleteItem | None]:
        """Return changes of the very items that are stored; None for a deletion of another's.

        Raises:
            ConflictError: an item of the user has another revision than the caller expects.
            IntegrityError: an item would be stored in place of another user's.
        """
        paths = list(dict.fromkeys(path for _, path in given))
        rows = await self._store.backend.get_items(paths) if paths else []
        owners = {path_text(row): row_owner(row) for row in rows}
        revisions = {path_text(row): row_revision(row) for row in rows if self._is_own(row)}
        conditional: list[PutItem | DeleteItem | None] = []
        for change, path in given:
            revision = revisions.get(path)
            if not is_expected(require_revision(change.expected_revision), revision):
                raise item_conflict(path, change.expected_revision, revision)
            if path in revisions or path not in owners:
                conditional.append(replace(change, expected_revision=revision))
            elif isinstance(change, DeleteItem):
                conditional.append(None)
            else:
                raise id_taken("item", change.item.key)
        return conditional

    def _is_own(self, row: ItemRow) -> bool:
        return row_owner(row) == self._user_id

    def _prepared(self, change: PutItem | DeleteItem) -> _Prepared:
        """Return a change, of an item that is the user's, and the path of the item."""
        if isinstance(change, PutItem):
            item = snapshot(change.item, MemoryItem).record
            require_own(self._user_id, item.user_id)
            item = item.model_copy(update={"user_id": self._user_id})
            return replace(change, item=item), path_of(item.namespace, item.key)
        if isinstance(change, DeleteItem):
            namespace = require_namespace("namespace", change.namespace)
            return change, path_of(namespace, require_id("key", change.key))
        raise TypeError(f"a change must be a PutItem or a DeleteItem, not {type(change).__name__}")

    @composed
    async def renew(self, items: Iterable[MemoryItem]) -> int:
        """Set `expires_at` of items of the user in one step."""
        records = [snapshot(item, MemoryItem).record for item in items]
        for record in records:
            require_own(self._user_id, record.user_id)
        paths = list(dict.fromkeys(path_of(one.namespace, one.key) for one in records))
        rows = await self._store.backend.get_items(paths) if paths else []
        own = {path_text(row): row_revision(row) for row in rows if self._is_own(row)}
        # Of a record that has another revision than the user's item, nothing is renewed.
        return await self._store.renew(
            one for one in records if own.get(path_of(one.namespace, one.key)) == one.revision
        )

    # Lists

    @composed
    async def list_items(
        self, prefix: Sequence[str] = (), *, user_id: str | None = None, **page: Any
    ) -> list[MemoryItem]:
        """Return a page of the user's items."""
        return await self._store.list_items(prefix, user_id=self._own(user_id), **page)

    @composed
    async def list_namespaces(
        self, prefix: Sequence[str] = (), *, user_id: str | None = None, **page: Any
    ) -> list[tuple[str, ...]]:
        """Return the namespaces that have items of the user."""
        return await self._store.list_namespaces(prefix, user_id=self._own(user_id), **page)

    @composed
    async def search_items(
        self, query: str, *, user_id: str | None = None, **wanted: Any
    ) -> list[FoundItem]:
        """Return the user's items that match a query best."""
        return await self._store.search_items(query, user_id=self._own(user_id), **wanted)

    # Erasure and retention

    @composed
    async def erase_user(self, user_id: str) -> int:
        """Delete all items of the user."""
        return await self._store.erase_user(self._own(require_id("user_id", user_id)))

    @composed
    async def move_user(self, from_user_id: str, to_user_id: str) -> int:
        """Raise `ScopeError` unless both are the user."""
        return await self._store.move_user(
            self._own(require_id("from_user_id", from_user_id)),
            self._own(require_id("to_user_id", to_user_id)),
        )

    @composed
    async def prune_expired(self, limit: int = 1000, *, user_id: str | None = None) -> int:
        """Delete expired items of the user."""
        return await self._store.prune_expired(limit, user_id=self._own(user_id))


_Prepared: TypeAlias = "tuple[PutItem | DeleteItem, str]"
