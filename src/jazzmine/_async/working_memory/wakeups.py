"""How calls that wait for a lock on a server learn that it is theirs."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from jazzmine._async.background import BackgroundTask
from jazzmine._compat.async_concurrency import Event
from jazzmine.deadline import Deadline

__all__ = ["WakeUps"]

logger: logging.Logger = logging.getLogger(__name__)

# How long a subscription is kept that no call needs, in s, and how long calls wait for one.
_KEPT, _CONNECTING = 5.0, 0.5


class WakeUps(ABC):
    """Wakes the calls of a store that wait for a lock, over one subscription for all of them.

    The store subscribes when a call has to wait. Where that fails, the calls are not woken.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, Event] = {}
        self._task = BackgroundTask(self._listen)
        self._decided = Event()
        self._listening = self._closed = False
        self._is_possible = True  # whether it is worth while to subscribe

    @asynccontextmanager
    async def waiting(self, token: str) -> AsyncIterator[Event | None]:
        """Have an event in a block that is set when a lock is handed over to a token.

        The block gets the event, or None if it is not going to be set.
        """
        event = self._waiting[token] = Event()
        try:
            if self._is_possible and not self._listening:
                self._decided.clear()
                self._task.start()
                await self._decided.wait(_CONNECTING)
            yield event if self._listening else None
        finally:
            del self._waiting[token]

    async def close(self) -> None:
        """End the subscription."""
        self._closed = True
        await self._task.close(timeout=1.0)

    @abstractmethod
    async def _subscribe(self) -> bool:
        """Subscribe, and return whether the server has confirmed it."""

    @abstractmethod
    async def _receive(self) -> Sequence[str]:
        """Wait for a moment, and return the tokens that were given a lock meanwhile."""

    @abstractmethod
    async def _unsubscribe(self) -> None:
        """Give the connection back, if there is one."""

    async def _listen(self) -> None:
        try:
            if not self._closed and await self._subscribe():
                self._listening = True
                self._decided.set()
                await self._pass_on_tokens()
        except Exception as error:
            logger.debug("no call that waits for a lock is woken: %s", type(error).__name__)
        finally:
            self._listening = False
            self._decided.set()
            with suppress(Exception):
                await self._unsubscribe()

    async def _pass_on_tokens(self) -> None:
        end = Deadline(_KEPT)
        while not (self._closed or end.expired):
            for token in await self._receive():
                event = self._waiting.get(token)
                if event is not None:
                    event.set()
            if self._waiting:
                end = Deadline(_KEPT)
