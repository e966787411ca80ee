"""Both faces of the Redis store behind plain calls, so that one test speaks to either."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jazzmine.core import working_memory as core
from jazzmine.records.working_memory import WorkingMemory
from jazzmine.sync import working_memory as sync

__all__ = ["FACES", "Opened", "open_core", "open_sync"]


class Opened:
    """An awaitable store, on an event loop of its own, called without awaiting."""

    def __init__(self, url: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        try:
            opened = core.WorkingMemoryStore.initialize({"storage": "redis", "url": url, **options})
            self._store = self._loop.run_until_complete(opened)
        except BaseException:
            self._loop.close()
            raise

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.run_until_complete(self._store.close())
        self._loop.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)
        return lambda *arguments: self._loop.run_until_complete(method(*arguments))

    @contextmanager
    def locked(self, cid: str) -> Iterator[WorkingMemory]:
        """Hold a conversation's lock; nothing else runs on the loop meanwhile."""
        block = self._store.locked(cid)
        memory = self._loop.run_until_complete(block.__aenter__())
        try:
            yield memory
        except BaseException as error:
            self._loop.run_until_complete(block.__aexit__(type(error), error, None))
            raise
        self._loop.run_until_complete(block.__aexit__(None, None, None))


def open_core(url: str, **options: Any) -> Any:
    """Open a store of the awaitable face."""
    return Opened(url, **options)


def open_sync(url: str, **options: Any) -> Any:
    """Open a store of the blocking face."""
    return sync.WorkingMemoryStore.initialize({"storage": "redis", "url": url, **options})


FACES = [open_core, open_sync]
