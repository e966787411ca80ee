"""How adapters call a store: its arguments, appends, threads, cancellation and retries."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, TypeVar, cast

from jazzmine._async.long_term_memory.store import LongTermMemoryStore as AsyncItems
from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._compat.concurrency import async_run_blocking as run_blocking
from jazzmine._sync.long_term_memory.store import LongTermMemoryStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._direct import Direct
from jazzmine.adapters._recorder import RunRecorder, append_with_traces
from jazzmine.errors import IntegrityError
from jazzmine.records.log import ANY, AnyMessage
from jazzmine.records.messages import Conversation, Message

__all__ = [
    "Conversations",
    "as_async",
    "called_directly",
    "finished",
    "items_as_async",
    "newest_shown",
    "require_session_id",
    "require_several",
]

T = TypeVar("T")

# How many messages are read at once.
_PAGE = 500


class Conversations:
    """The conversations of an adapter, which are stored with their first messages.

    Raises:
        ValueError: an id is missing.
        TypeError: an argument is of another type.
    """

    def __init__(
        self, store: AsyncMessageStore | MessageStore, user_id: str, agent_id: str
    ) -> None:
        self.given: AsyncMessageStore | MessageStore = store
        self.store: AsyncMessageStore = as_async(store)
        self.user_id: str = require_session_id(user_id, "user_id")
        self.agent_id: str = require_session_id(agent_id, "agent_id")

    async def append(
        self,
        conversation_id: str,
        messages: Sequence[Message],
        expected_last: str | AnyMessage | None = ANY,
        runs: Sequence[tuple[RunRecorder, Sequence[Message]]] = (),
    ) -> None:
        """Append messages as `append_with_traces` does; store the conversation if it is new."""
        append = partial(
            append_with_traces, self.store, conversation_id, messages, runs, expected_last
        )
        try:
            await append()
        except IntegrityError:
            # It is as old as its first message, so it is never newer than its messages.
            conversation = Conversation(
                id=conversation_id,
                user_id=self.user_id,
                agent_id=self.agent_id,
                created_at=min((message.timestamp for message in messages), default=0),
            )
            await self.store.get_or_create_conversation(conversation)
            await append()

    def recorder(self, conversation_id: str) -> RunRecorder:
        """Return the recorder of a run whose messages go to a conversation."""
        return RunRecorder(self.store, conversation_id, self.user_id, self.agent_id)


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
    return cast(AsyncMessageStore, _as_async("store", store, AsyncMessageStore, MessageStore))


def items_as_async(items: AsyncItems | LongTermMemoryStore) -> AsyncItems:
    """Do the same as `as_async` with a long-term memory."""
    return cast(AsyncItems, _as_async("items", items, AsyncItems, LongTermMemoryStore))


def _as_async(name: str, store: object, of_loops: type[object], of_threads: type[object]) -> object:
    if isinstance(store, of_loops):
        return store
    if isinstance(store, of_threads):
        return _InThreads(store)
    kind = type(store).__name__
    raise TypeError(f"{name} must be a {of_loops.__name__} that is open, not {kind}")


def called_directly(store: AsyncMessageStore | MessageStore) -> AsyncMessageStore:
    """Return a sync store with the async API, whose calls never wait for an event loop.

    Raises:
        TypeError: it is no sync store.
    """
    if not isinstance(store, MessageStore):
        kind = f"{type(store).__module__}.{type(store).__qualname__}"
        raise TypeError(
            f"store must be an open MessageStore of jazzmine.sync, not {kind}; with a store of"
            " jazzmine.core, await this, or write `async with`"
        )
    return cast(AsyncMessageStore, Direct(store))


class _InThreads:
    """Runs each call of a sync store in a worker thread; it belongs to no event loop."""

    def __init__(self, store: object) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._store, name)

        async def run(*args: Any, **kwargs: Any) -> Any:
            return await run_blocking(partial(method, *args, **kwargs))

        return run


async def newest_shown(store: AsyncMessageStore, conversation_id: str, count: int) -> list[Message]:
    """Return the newest messages that are not flagged, oldest first."""
    found: list[Message] = []
    after: str | None = None
    size = min(max(count, 1), _PAGE)
    while len(found) < count:
        page = await store.get_messages_by_conversation_id(
            conversation_id, order="newest", limit=size, after=after
        )
        found += [message for message in page if not message.is_flagged]
        if len(page) < size:
            break
        after = page[-1].id
    return found[: max(count, 0)][::-1]


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
