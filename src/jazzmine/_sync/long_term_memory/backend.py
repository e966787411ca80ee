"""What a back end of a long-term memory has to provide."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from jazzmine._sync.store import Backend
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

__all__ = ["ItemBackend"]


class ItemBackend(Backend):
    """The hooks of a long-term memory, each of them one step.

    Arguments are checked before a hook is called. Items are found by their paths (see
    `records.item_paths`), and sort as these do, by code points. Every write may be repeated after
    its outcome was lost: one that took effect has the result that it had then. An item whose
    `expires_at` is not later than the store's clock is not there, for reads and for writes.
    """

    #: How many items a step of an erasure deletes.
    deleted_at_once: ClassVar[int] = 500

    @abstractmethod
    def get_items(self, paths: Sequence[str]) -> Sequence[ItemRow]:
        """Return the rows of the items at some paths, in any order; there is at least one path."""

    @abstractmethod
    def apply(self, changes: Sequence[ItemChange]) -> Sequence[Outcome] | ItemConflict:
        """Make at least one change, each of another path, all of them or none.

        Nothing is changed unless each path has the revision that its change expects. The store's
        clock gives `updated_at`, and `created_at` where there was no item. A new revision is a
        number that the path has never had, also before it was deleted, and that is higher than the
        one before.

        Returns:
            What became of each change, or one that was not expected.
        """

    @abstractmethod
    def renew(self, renewals: Sequence[Renewal]) -> int:
        """Set `expires_at` of items, each where the item has the revision still.

        There is at least one, each of another path. Revisions and times stay as they are.

        Returns:
            How many were set.
        """

    @abstractmethod
    def restore(self, changes: Sequence[ItemChange]) -> None:
        """Store items with the times and the revisions that they have.

        They take the place of those at their paths, and each revision that is given later is higher
        than theirs. There is at least one, each of another path. It may end with the first ones
        stored.
        """

    @abstractmethod
    def rewrite(self, versions: Sequence[ItemVersion]) -> None:
        """Store other forms of items, each where the item has the revision still.

        Revisions and times stay as they are. It may end with some of them stored.
        """

    @abstractmethod
    def list_items(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        """Return a page of items.

        Args:
            query: which items, and what of them.
            limit: how many at most; None is no limit.
            after: the last item of the page before, which need not be stored any more.
        """

    @abstractmethod
    def list_namespaces(
        self, prefix: str, first: str, limit: int, user_id: str | None = None
    ) -> Sequence[str]:
        """Return namespaces that have items, in order.

        Args:
            prefix: the namespace in or below which they are, as `namespace_path` returns it.
            first: none that sorts before this.
            limit: how many at most.
            user_id: only those with items of this user; None is anybody's.
        """

    @abstractmethod
    def move_user(self, from_id: str, to_id: str) -> int:
        """Make all items of one user another's, in one step, and return how many."""

    @abstractmethod
    def erase(self, user_id: str, limit: int) -> int:
        """Delete some of a user's items, expired ones too, and return how many.

        If fewer than `limit` are deleted, no other was there.

        Args:
            user_id: whose items.
            limit: how many at most; at least 1.
        """

    @abstractmethod
    def prune(self, limit: int, user_id: str | None = None) -> int:
        """Delete up to `limit` expired items, those first that have expired first.

        Args:
            limit: how many at most.
            user_id: only those of this user; None is anybody's.

        Returns:
            How many were deleted.
        """
