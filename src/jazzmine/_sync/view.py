"""What the views of one user have in common, for each kind of store."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from jazzmine._sync.operation import composed
from jazzmine._sync.store import Store
from jazzmine.records.arguments import require_id
from jazzmine.records.owners import require_own

__all__ = ["View"]

AnyStore = TypeVar("AnyStore", bound=Store[Any])


class View(Store[Any], Generic[AnyStore]):
    """One user's view of a store, which the view neither opens nor closes.

    Args:
        store: the store.
        user_id: the user.
    """

    def __init__(self, store: AnyStore, user_id: str) -> None:
        self._store = store
        self._user_id = user_id
        self._affinity = store._affinity
        self._closed = False

    @property
    def system_name(self) -> str:
        """The value of the attribute `db.system.name` of its spans."""
        return self._store.system_name

    def require_open(self) -> None:
        """Raise unless both the view and its store are open."""
        Store.require_open(self)
        self._store.require_open()

    @composed
    def ping(self) -> None:
        """Make one cheap round trip to the server."""
        self._store.ping()

    def _close(self) -> None:
        pass  # the store stays open

    def _own(self, user_id: str | None) -> str:
        """Return the id of the user; raise `ScopeError` if another user's is given."""
        if user_id is not None:
            require_own(self._user_id, require_id("user_id", user_id))
        return self._user_id
