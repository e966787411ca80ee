"""The base class of all stores: opening, closing, and the checks before a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import ClassVar, TypeVar

from jazzmine._compat.async_concurrency import Affinity
from jazzmine.errors import StoreClosedError

__all__ = ["Store"]

AnyStore = TypeVar("AnyStore", bound="Store")


class Store(ABC):
    """A store, open from `_open()` until `close()`.

    Each public method of a store calls `_check()` before anything else, and none calls another
    public method, because each call is a span of its own.
    """

    #: The value of the attribute `db.system.name` of its spans.
    _system_name: ClassVar[str] = ""

    def __init__(self) -> None:
        self._affinity = Affinity(self._after_fork)
        self._closed = False

    async def ping(self) -> None:
        """Make one cheap round trip to the server (or the file), for readiness probes.

        Raises:
            StoreUnavailableError: the server did not answer within `timeout`.
        """
        self._check()
        await self._ping()

    async def close(self) -> None:
        """Release all files and connections; closing again does nothing."""
        self._affinity.ensure()
        if not self._closed:
            self._closed = True
            await self._close()

    async def __aenter__(self: AnyStore) -> AnyStore:
        self._check()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _opened(self: AnyStore) -> AnyStore:
        """Open the store, and return it."""
        self._affinity.ensure()
        await self._open()
        return self

    def _check(self) -> None:
        if self._closed:
            raise StoreClosedError("this store is closed; open another with initialize()")
        self._affinity.ensure()

    # Implemented by a back end

    async def _pending(self) -> list[str]:
        """Return what opening the store would create or change there, without doing it.

        Each is a phrase such as "create the index id_1 of chat.messages". Where nothing is stored
        yet, the file or the tables are among them.
        """
        return []

    @abstractmethod
    async def _open(self) -> None:
        """Import the driver and connect; on failure leave nothing open."""

    @abstractmethod
    async def _close(self) -> None:
        """Release all files and connections; called once."""

    def _after_fork(self) -> None:  # noqa: B027 - a back end may have nothing to replace
        """Replace inherited connections, files and locks in a forked process."""

    @abstractmethod
    async def _ping(self) -> None:
        """Make one round trip to the server."""
