"""How adapters call a store: its arguments, threads, cancellation and retries."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, TypeVar, cast

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._compat.concurrency import async_run_blocking as run_blocking
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.errors import ConflictError

T = TypeVar("T")

_RETRY_SECONDS = 30.0


def require_session_id(session_id: object, name: str = "session_id") -> str:
    """Return a session id.

    Raises:
        ValueError: it is missing: None or "".
        TypeError: it is no str.
    """
    if session_id is None or session_id == "":
        raise ValueError(f"{name} is missing: a session needs an id of its own")
    if not isinstance(session_id, str):
        raise TypeError(f"{name} must be a str, not {type(session_id).__name__}")
    return session_id


def require_several(items: object, name: str) -> None:
    """Raise `TypeError` if one item, or a text, was passed instead of a list.

    Iterating over it would give its keys, or its characters.
    """
    if isinstance(items, Mapping | str | bytes):
        raise TypeError(f"{name} must be a list, not {type(items).__name__}")


def as_async(
    store: Any,
    kinds: tuple[type[Any], type[Any]] = (AsyncMessageStore, MessageStore),
    name: str = "store",
) -> Any:
    """Return a store with the async API: the store, or a sync one called in threads.

    Args:
        store: an open store.
        kinds: the async and the sync class of such stores.
        name: the name of the argument.

    Raises:
        TypeError: it is no such store.
    """
    if not isinstance(store, kinds):
        kind = type(store).__name__
        raise TypeError(f"{name} must be a {kinds[0].__name__} that is open, not {kind}")
    return store if isinstance(store, kinds[0]) else AsyncCalls(store, in_threads=True)


def called_directly(store: AsyncMessageStore | MessageStore) -> AsyncMessageStore:
    """Return a sync store with the async API, whose calls never wait for an event loop.

    Raises:
        TypeError: it is no sync store.
    """
    if not isinstance(store, MessageStore):
        kind = f"{type(store).__module__}.{type(store).__qualname__}"
        raise TypeError(
            f"store must be an open MessageStore of jazzmine.sync, not {kind}: it is used without"
            " an event loop here (a recorder also takes `async with`)"
        )
    return cast(AsyncMessageStore, AsyncCalls(store, in_threads=False))


class AsyncCalls:
    """Gives a sync store the async API.

    Args:
        store: the store.
        in_threads: whether a call runs in a worker thread, or at once, without an event loop.
    """

    def __init__(self, store: object, *, in_threads: bool) -> None:
        self._store, self.in_threads = store, in_threads

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._store, name)

        async def run(*args: Any, **kwargs: Any) -> Any:
            call = partial(method, *args, **kwargs)
            return await run_blocking(call) if self.in_threads else call()

        return run


async def finished(call: Awaitable[T]) -> T:
    """Wait for a call to end also if the caller is cancelled, and be cancelled after that."""
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        # Until the task has left a cancelled scope of anyio, that cancels it again and again.
        anyio = sys.modules.get("anyio")
        with nullcontext() if anyio is None else anyio.CancelScope(shield=True):
            while not task.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # marks it as seen
        raise
    return task.result()


def completed(call: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits, as on `AsyncCalls` without threads."""
    try:
        call.send(None)
    except StopIteration as done:
        return cast(T, done.value)
    call.close()
    raise RuntimeError("the coroutine waits for an event loop")


async def retry_conflicts(attempt: Callable[[], Awaitable[T]], store: object = None) -> T:
    """Repeat an attempt, which reads and then writes, until no other writer comes between.

    Raises:
        ConflictError: that took more than 30 s.
    """
    until, longest = time.monotonic() + _RETRY_SECONDS, 0.002
    while True:
        try:
            return await attempt()
        except ConflictError:
            if time.monotonic() >= until:
                raise
        pause = random.uniform(0, longest)
        if isinstance(store, AsyncCalls) and not store.in_threads:
            time.sleep(pause)  # noqa: ASYNC251 - no event loop waits for this
        else:
            await asyncio.sleep(pause)
        longest = min(longest * 2, 0.1)
