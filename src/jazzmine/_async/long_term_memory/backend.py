"""The hooks of a back end of a long-term memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from jazzmine._async.store import Backend
from jazzmine.records.item_rows import (
    Cursor,
    ItemChange,
    ItemConflict,
    ItemQuery,
    ItemRow,
    ItemVersion,
    Outcome,
    Renewal,
)


class ItemBackend(Backend):
    """The hooks of a long-term memory, each of them one step.

    Arguments are checked before a hook is called. Items are found by their paths (see
    `records.item_paths`), and are sorted by them, by code points. Every write may be repeated after
    its outcome was lost. An expired item, by the store's clock, is invisible for reads and writes.
    """

    #: The number of items that a step of an erasure deletes.
    deleted_at_once: ClassVar[int] = 500

    @abstractmethod
    async def get_items(self, paths: Sequence[str]) -> Sequence[ItemRow]:
        """Return the rows of the items at some paths, in any order; there is at least one path."""

    @abstractmethod
    async def apply(self, changes: Sequence[ItemChange]) -> Sequence[Outcome] | ItemConflict:
        """Make at least one change, each of another path, all of them or none.

        Nothing is changed unless each path has the revision that its change expects. The store's
        clock gives `updated_at`, and `created_at` where there was no item. A new revision is a
        number that the path has never had, also before it was deleted, and that is higher than the
        one before.

        Returns:
            The outcome of each change, or the first conflict.
        """

    @abstractmethod
    async def renew(self, renewals: Sequence[Renewal]) -> int:
        """Set `expires_at` of items that still have the given revision; return how many.

        Revisions and times stay as they are.
        """

    @abstractmethod
    async def restore(self, changes: Sequence[ItemChange]) -> None:
        """Store items with their times and revisions, in place of those at their paths.

        Each revision that is given later is higher. There is at least one item, each of another
        path. An error may leave the first ones stored.
        """

    @abstractmethod
    async def rewrite(self, versions: Sequence[ItemVersion]) -> None:
        """Store other forms of items that still have the given revision.

        Revisions and times stay as they are. An error may leave some of them stored.
        """

    @abstractmethod
    async def list_items(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        """Return a page of items, after one that may be deleted meanwhile."""

    @abstractmethod
    async def list_namespaces(
        self, prefix: str, first: str, limit: int, user_id: str | None = None
    ) -> Sequence[str]:
        """Return up to `limit` namespaces that have items, of a user if one is given, in order.

        The `prefix` is one of them, or one above, as `namespace_path` returns it; `first` is the
        first possible one.
        """

    @abstractmethod
    async def move_user(self, from_id: str, to_id: str) -> int:
        """Give all items of one user to another, in one step, and return their number."""

    @abstractmethod
    async def erase(self, user_id: str, limit: int) -> int:
        """Delete up to `limit` of a user's items, expired ones too, and return their number.

        If it is less than `limit`, no item is left.
        """

    @abstractmethod
    async def prune(self, limit: int, user_id: str | None = None) -> int:
        """Delete up to `limit` expired items, of a user if one is given, and return their number.

        Those that expired first are deleted first.
        """
