"""How adapters call a store: its arguments, appends, threads, cancellation and retries."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from jazzmine._async.message_store.base import MessageStore as AsyncMessageStore
from jazzmine._sync.message_store.base import MessageStore
from jazzmine.errors import ConflictError, IntegrityError
from jazzmine.records.log import ANY, AnyMessage
from jazzmine.records.messages import Conversation, Message

__all__ = [
    "Conversations",
    "as_async",
    "finished",
    "require_session_id",
    "require_several",
    "retry_conflicts",
    "retry_conflicts_sync",
]

T = TypeVar("T")

_RETRY_SECONDS = 30.0


class Conversations:
    """The conversations of an adapter, which are stored with their first messages.

    Args:
        store: an open message store of either API.
        user_id: the user of new conversations.
        agent_id: the agent of new conversations.

    Raises:
        ValueError: an id is missing.
        TypeError: an argument is of another type.
    """

    def __init__(
        self, store: AsyncMessageStore | MessageStore, user_id: str, agent_id: str
    ) -> None:
        self.store = as_async(store)
        self.user_id = require_session_id(user_id, "user_id")
        self.agent_id = require_session_id(agent_id, "agent_id")

    async def append(
        self,
        conversation_id: str,
        messages: Sequence[Message],
        expected_last: str | AnyMessage | None = ANY,
    ) -> None:
        """Append messages to a conversation as `append_messages` does; store it if it is new."""
        try:
            await self.store.append_messages(conversation_id, messages, expected_last=expected_last)
        except IntegrityError:
            await self.store.get_or_create_conversation(
                Conversation(id=conversation_id, user_id=self.user_id, agent_id=self.agent_id)
            )
            await self.store.append_messages(conversation_id, messages, expected_last=expected_last)


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


def as_async(store: AsyncMessageStore | MessageStore) -> AsyncMessageStore:
    """Return a message store with the async API: the store, or a sync one called in threads.

    Raises:
        TypeError: it is no message store.
    """
    if isinstance(store, AsyncMessageStore):
        return store
    if isinstance(store, MessageStore):
        return cast(AsyncMessageStore, _InThreads(store))
    raise TypeError(f"store must be a MessageStore that is open, not {type(store).__name__}")


class _InThreads:
    """Runs each call of a sync store in a worker thread; it belongs to no event loop."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._store, name)

        async def run(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(method, *args, **kwargs)

        return run


async def finished(call: Awaitable[T]) -> T:
    """Wait for a call to end also if the caller is cancelled, and be cancelled after that."""
    task = asyncio.ensure_future(call)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # marks it as seen
        raise cancelled
    return task.result()


async def retry_conflicts(attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeat an attempt, which reads and then writes, until no other writer comes between.

    Raises:
        ConflictError: that took more than 30 s.
    """
    pauses = _pauses()
    while True:
        try:
            return await attempt()
        except ConflictError:
            pause = next(pauses, None)
            if pause is None:
                raise
        await asyncio.sleep(pause)


def retry_conflicts_sync(attempt: Callable[[], T]) -> T:
    """Do the same as `retry_conflicts`, without an event loop."""
    pauses = _pauses()
    while True:
        try:
            return attempt()
        except ConflictError:
            pause = next(pauses, None)
            if pause is None:
                raise
        time.sleep(pause)


def _pauses() -> Iterator[float]:
    """Yield growing pauses in s, until 30 s have passed."""
    until, longest = time.monotonic() + _RETRY_SECONDS, 0.002
    while time.monotonic() < until:
        yield random.uniform(0, longest)
        longest = min(longest * 2, 0.1)
