"""Both APIs of the Redis store with sync calls, so that one test can use either."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jazzmine.core import working_memory as core
from jazzmine.records.working_memory import WorkingMemory
from jazzmine.sync import working_memory as sync


class Opened:
    """An async store on its own event loop, with sync calls.

    Args:
        open_store: returns the store.
        close: is run after the store is closed.
    """

    def __init__(
        self, open_store: Callable[[], Any], close: Callable[[], Any] | None = None
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._close_client = close
        try:
            self.store = self._loop.run_until_complete(open_store())
        except BaseException:
            self._loop.close()
            raise

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *error: object) -> None:
        self.run(self.store.close())
        if self._close_client is not None:
            self.run(self._close_client())
        self._loop.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.store, name)
        return lambda *arguments: self.run(method(*arguments))

    def run(self, call: Any) -> Any:
        """Run a coroutine on the loop until it ends."""
        return self._loop.run_until_complete(call)

    @contextmanager
    def locked(self, conversation_id: str) -> Iterator[WorkingMemory]:
        """Hold a conversation's lock; nothing else runs on the loop meanwhile."""
        block = self.store.locked(conversation_id)
        memory = self.run(block.__aenter__())
        try:
            yield memory
        except BaseException as error:
            self.run(block.__aexit__(type(error), error, None))
            raise
        self.run(block.__aexit__(None, None, None))


def open_async(url: str, **options: Any) -> Any:
    """Open an async store."""
    config = {"storage": "redis", "url": url, **options}
    return Opened(lambda: core.WorkingMemoryStore.initialize(config))


def open_sync(url: str, **options: Any) -> Any:
    """Open a sync store."""
    return sync.WorkingMemoryStore.initialize({"storage": "redis", "url": url, **options})


APIS = [open_async, open_sync]
