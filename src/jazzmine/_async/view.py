"""What the views of one user have in common, for each kind of store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, TypeVar, cast

from jazzmine._async.operation import composed, operation
from jazzmine._async.store import Store
from jazzmine.errors import IntegrityError, ScopeError
from jazzmine.records.arguments import require_id

AnyMethod = TypeVar("AnyMethod", bound=Callable[..., Any])
AnyView = TypeVar("AnyView", bound="View[Any]")
AnyStore = TypeVar("AnyStore", bound=Store[Any])


class View(Store[Any], Generic[AnyStore]):
    """One user's view of a store, which the view neither opens nor closes."""

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

    def scoped(self: AnyView, *, user_id: str) -> AnyView:
        """Return another view of the same user."""
        return type(self)(self._store, self._own(require_id("user_id", user_id)))

    @operation()
    async def move_user(self, from_user_id: str, to_user_id: str) -> int:
        """Raise `ScopeError` unless both are the user; then there is nothing to move."""
        self._own(require_id("from_user_id", from_user_id))
        self._own(require_id("to_user_id", to_user_id))
        return 0

    @composed
    async def ping(self) -> None:
        """Make one cheap round trip to the server."""
        await self._store.ping()

    async def _close(self) -> None:
        pass  # the store stays open

    def _own(self, user_id: str | None) -> str:
        """Return the id of the user; raise `ScopeError` if another user's is given."""
        if user_id is not None and require_id("user_id", user_id) != self._user_id:
            raise ScopeError("this store is scoped to another user than the one that was given")
        return self._user_id


def id_taken(kind: str, record_id: str) -> IntegrityError:
    """Return the error for a new record with the id of another user's record."""
    return IntegrityError(f"the {kind} {record_id!r} cannot be stored: its id is taken")


class ConversationView(View[AnyStore]):
    """A view of what belongs to conversations: it asks the store once whose a conversation is."""

    def __init__(self, store: AnyStore, user_id: str) -> None:
        super().__init__(store, user_id)
        # The user's conversations that are known, without values.
        self._known: dict[str, None] = {}

    @abstractmethod
    async def _owner(self, conversation_id: str) -> str | None:
        """Return whose a conversation is; None if it is not stored."""

    async def _has(self, conversation_id: str) -> bool:
        if require_id("conversation_id", conversation_id) in self._known:
            return True
        if await self._owner(conversation_id) != self._user_id:
            return False
        self._remember(conversation_id)
        return True

    def _remember(self, conversation_id: str) -> None:
        self._known[conversation_id] = None


def for_user(method: AnyMethod) -> AnyMethod:
    """Return the method of a view for a method with the parameter `user_id`, None by default."""

    @composed
    @wraps(method)
    async def call(self: View[Any], *args: Any, user_id: str | None = None, **options: Any) -> Any:
        of_store = getattr(self._store, method.__name__)
        return await of_store(*args, user_id=self._own(user_id), **options)

    return cast("AnyMethod", call)
