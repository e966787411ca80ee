"""One user's view of a long-term memory: it asks the store about that user's items alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from jazzmine._async.long_term_memory.items import prepared_change
from jazzmine._async.long_term_memory.store import LongTermMemoryStore
from jazzmine._async.operation import composed
from jazzmine._async.view import View, for_user, id_taken
from jazzmine.errors import ConflictError
from jazzmine.records.arguments import require_id, require_revision
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
from jazzmine.records.items import DeleteItem, MemoryItem, PutItem

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
        self.embed, self.codec = store.embed, store.codec
        self._decoder = store._decoder

    async def _rows_at(self, paths: Sequence[str]) -> Sequence[ItemRow]:
        rows = await self._store._rows_at(paths)
        return [row for row in rows if row_owner(row) == self._user_id]

    async def _apply(self, changes: Sequence[PutItem | DeleteItem]) -> list[MemoryItem | bool]:
        """Make changes on condition that what is stored is what was found to be the user's."""
        given = [self._prepared(change) for change in changes]
        attempts = 0
        while True:
            attempts += 1
            conditional = await self._conditional(given)
            try:
                made = iter(await self._store._apply([one for one in conditional if one]))
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
        rows = await self._store._rows_at(paths) if paths else []
        owners = {path_text(row): row_owner(row) for row in rows}
        revisions = {
            path_text(row): row_revision(row) for row in rows if row_owner(row) == self._user_id
        }
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

    def _prepared(self, change: PutItem | DeleteItem) -> _Prepared:
        """Return a change, of an item that is the user's, and the path of the item."""
        if isinstance(change, PutItem):
            item = snapshot(change.item, MemoryItem).record
            self._own(item.user_id)
            change = replace(change, item=item.model_copy(update={"user_id": self._user_id}))
        return change, prepared_change(change).path

    @composed
    async def renew(self, items: Iterable[MemoryItem]) -> int:
        """Set `expires_at` of items of the user in one step."""
        records = [snapshot(item, MemoryItem).record for item in items]
        for record in records:
            self._own(record.user_id)
        paths = list(dict.fromkeys(path_of(one.namespace, one.key) for one in records))
        rows = await self._rows_at(paths) if paths else []
        own = {path_text(row): row_revision(row) for row in rows}
        # Of a record that has another revision than the user's item, nothing is renewed.
        return await self._store.renew(
            one for one in records if own.get(path_of(one.namespace, one.key)) == one.revision
        )

    # Lists, and deletion

    list_items = for_user(LongTermMemoryStore.list_items)
    list_namespaces = for_user(LongTermMemoryStore.list_namespaces)
    search_items = for_user(LongTermMemoryStore.search_items)
    prune_expired = for_user(LongTermMemoryStore.prune_expired)

    @composed
    async def erase_user(self, user_id: str) -> int:
        """Delete all items of the user."""
        return await self._store.erase_user(self._own(require_id("user_id", user_id)))


_Prepared: TypeAlias = "tuple[PutItem | DeleteItem, str]"
