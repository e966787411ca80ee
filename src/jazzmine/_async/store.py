"""The base class of all stores: opening, closing, and the checks before a call."""

from __future__ import annotations

import os
from abc import ABC
from collections.abc import Mapping
from inspect import signature
from threading import get_ident
from types import TracebackType
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from jazzmine._async.operation import operation
from jazzmine._compat.concurrency import AsyncAffinity as Affinity
from jazzmine.errors import StoreClosedError, StoreUnavailableError
from jazzmine.process import UPDATING
from jazzmine.records.arguments import require_id

AnyStore = TypeVar("AnyStore", bound="Store[Any]")


class Client(Protocol):
    """The connections to a server, or an open file; several stores may share it."""

    async def open(self) -> None:
        """Connect; on failure leave nothing open."""

    async def close(self) -> None:
        """Release all files and connections, unless another store uses them."""

    async def ping(self) -> None:
        """Make one cheap round trip."""

    async def pending(self) -> list[str]:
        """Return the changes that opening it would make, without making them.

        Each is a phrase such as "create the index id_1 of chat.messages". The file or the tables
        of a new store are among them.
        """


class Backend(ABC):
    """The place where the records of a store are kept."""

    #: The value of the attribute `db.system.name` of the store's spans.
    system_name: str

    client: Client

    async def open(self) -> None:
        """Connect; on failure leave nothing open."""
        await self.client.open()

    async def close(self) -> None:
        """Release all files and connections; called once."""
        await self.client.close()

    async def ping(self) -> None:
        """Make one cheap round trip to the server."""
        await self.client.ping()

    async def pending(self) -> list[str]:
        """Return the changes that opening the store would make, without making them."""
        return await self.client.pending()

    async def purge(self) -> None:  # noqa: B027 - only files need it
        """Remove the raw bytes of deleted or replaced records from files."""


# The parts of stores that were opened before this process was forked.
_INHERITED: list[dict[str, Any]] = []

AnyBackend = TypeVar("AnyBackend", bound=Backend)


class Store(ABC, Generic[AnyBackend]):
    """A store, open from `open()` until `close()`.

    Each public method is an `operation` and a span. None calls another one.
    """

    #: The name of the tracer of its spans.
    scope: ClassVar[str]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        is_address = isinstance(args[0], (str, Mapping, os.PathLike)) if args else not kwargs
        if is_address and "backend" in signature(cls.__init__).parameters:
            raise TypeError("a store is opened by initialize(), with a URL, a path or a mapping")
        store = super().__new__(cls)
        store._made_with = args, kwargs
        return store

    #: The constructor's arguments, with which a forked process makes the store anew.
    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __init__(self, backend: AnyBackend) -> None:
        self.backend: AnyBackend = backend
        self._affinity = Affinity(self._after_fork)
        self._closed = False

    def __dir__(self) -> list[str]:
        # The interpreter suggests these names in place of one that is not there.
        names = super().__dir__()
        return [name for name in names if not name.startswith("_") or name.startswith("__")]

    def __reduce__(self) -> Any:
        raise TypeError(
            "a store holds files or connections, and can be neither copied nor pickled: open one"
            " from its configuration where it is needed"
        )

    def scoped(self: AnyStore, *, user_id: str) -> AnyStore:
        """Return a store that sees and changes this user's records alone.

        Of a message store, those are what is in the user's conversations. It uses the same
        connections, and closing it closes nothing else; make one for each request. Records of other
        users have the same results as records that are not stored.

        Args:
            user_id: whose records.

        Raises:
            ScopeError: this store is scoped to another user.
        """
        from jazzmine._async.factory import new_view

        kind = self.scope.partition(".")[2]
        view: AnyStore = new_view(kind, self, require_id("user_id", user_id))
        return view

    @operation()
    async def ping(self) -> None:
        """Make one cheap round trip to the server (or the file), for readiness probes.

        Raises:
            StoreUnavailableError: the server did not answer within `timeout`.
        """
        await self.backend.ping()

    @operation(needs_open=False)
    async def close(self) -> None:
        """Release all files and connections; closing again does nothing.

        A scoped store leaves the files and connections of its store open.
        """
        self._affinity.ensure()
        if not self._closed:
            self._closed = True
            try:
                await self._close()
            except RuntimeError:  # an interrupted call still needs the store
                self._closed = False
                raise

    async def __aenter__(self: AnyStore) -> AnyStore:
        self.require_open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # For `initialize` and for programs that show or move whole stores.

    @operation()
    async def open(self: AnyStore) -> AnyStore:
        """Open a store that was made without `initialize()`, and return it.

        On failure nothing is left open.
        """
        await self._open()
        return self

    async def _open(self) -> None:
        await self.backend.open()
        try:
            await self._opened()
        except BaseException:
            await self.backend.close()
            raise

    async def _opened(self) -> None:
        """Prepare an open back end; raise an error to refuse what is stored."""

    async def _initialized(self: AnyStore) -> AnyStore:
        """Open a store for `initialize`; errors name the command that says more."""
        try:
            return await self.open()
        except StoreUnavailableError as error:
            error.args = (f"{error}; `jazzmine doctor` says more",)
            raise

    @property
    def system_name(self) -> str:
        """The value of the attribute `db.system.name` of its spans."""
        return self.backend.system_name

    def require_open(self) -> None:
        """Raise unless the store is open, and belongs to this event loop (or this process).

        Raises:
            RuntimeError: the function that `update` was given calls it: it may be repeated, and
                in SQLite run in the thread that writes, which would wait for itself.
            StoreClosedError: the store is closed.
            WrongEventLoopError: the store belongs to another event loop.
        """
        if self._closed:
            raise StoreClosedError("this store is closed; open another with initialize()")
        self._affinity.ensure()
        if UPDATING and get_ident() in UPDATING:
            raise RuntimeError(
                "the function of update() has called a store: it uses the methods of the working"
                " memory that it is given, and is called again when another call came between"
            )

    async def _after_fork(self) -> None:
        """Make this store anew, with a back end of its own, in a forked process."""
        arguments, options = self._made_with
        self._become(type(self)(*arguments, **options))
        await self._open()

    def _become(self: AnyStore, other: AnyStore) -> None:
        """Replace the parts of the parent process by the parts of a new store.

        The old parts are never collected: that would close the connections of the parent.
        """
        _INHERITED.append(dict(vars(self)))
        parts = dict(vars(other))
        for name in ("_affinity", "_closed", "_made_with"):
            del parts[name]
        vars(self).update(parts)

    async def _close(self) -> None:
        await self.backend.close()
