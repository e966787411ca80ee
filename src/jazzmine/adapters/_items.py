"""What all adapters share: items as JSON strings, calls of sync stores, retries, versions."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar, cast

from jazzmine._async.message_store.base import MessageStore as AsyncMessageStore
from jazzmine._sync.message_store.base import MessageStore
from jazzmine.errors import ConflictError
from jazzmine.records.messages import Message, MessageRole

__all__ = [
    "as_async",
    "decoded",
    "encoded",
    "finished",
    "item_message",
    "item_of",
    "readable",
    "require_session_id",
    "retry_conflicts",
    "retry_conflicts_sync",
    "supported",
    "text_of",
]

T = TypeVar("T")

# Values that JSON has no form for are objects with one of these keys.
_BYTES, _TEXT, _TUPLE, _PAIRS = "$bytes", "$text", "$tuple", "$pairs"
_TAGS = frozenset({_BYTES, _TEXT, _TUPLE, _PAIRS})

# Deeper items are refused when they are stored, because reading them back could exceed the
# limit on recursion.
_MAX_DEPTH = 200

_RETRY_SECONDS = 30.0


def encoded(item: object) -> str:
    """Return an item as JSON text, from which `decoded` makes an equal one.

    Args:
        item: dicts, lists, tuples, str, bytes, bool, int, float and None, nested. Keys of any of
            these simple types, lone surrogates, NaN and integers of any size are allowed.

    Raises:
        TypeError: the item holds a value of another type.
        ValueError: it is nested more than 200 levels deep, or holds an integer of more digits
            than Python converts.
    """
    return json.dumps(_tagged(item, 0), ensure_ascii=False, separators=(",", ":"))


def decoded(text: str) -> Any:
    """Return the item that `encoded` was given."""
    return json.loads(text, object_hook=_untagged if '"$' in text else None)


def _tagged(value: object, depth: int) -> object:
    if isinstance(value, str):
        return value if value.isascii() or _is_utf8(value) else {_TEXT: _base64(value)}
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth == _MAX_DEPTH:
        raise ValueError(f"the item is nested more than {_MAX_DEPTH} levels deep")
    if isinstance(value, dict):
        if all(isinstance(key, str) and _is_utf8(key) for key in value) and not (
            len(value) == 1 and _TAGS & value.keys()
        ):
            return {key: _tagged(one, depth + 1) for key, one in value.items()}
        pairs = [[_tagged(one, depth + 1) for one in pair] for pair in value.items()]
        return {_PAIRS: pairs}
    if isinstance(value, list | tuple):
        values = [_tagged(one, depth + 1) for one in value]
        return values if isinstance(value, list) else {_TUPLE: values}
    if isinstance(value, bytes):
        return {_BYTES: b64encode(value).decode()}
    raise TypeError(f"an item cannot hold a value of type {type(value).__name__}")


def _untagged(found: dict[str, Any]) -> Any:
    if len(found) != 1:
        return found
    ((key, value),) = found.items()
    if key == _BYTES:
        return b64decode(value)
    if key == _TEXT:
        return b64decode(value).decode("utf-8", "surrogatepass")
    if key == _TUPLE:
        return tuple(value)
    if key == _PAIRS:
        return dict(value)
    return found


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _base64(text: str) -> str:
    return b64encode(text.encode("utf-8", "surrogatepass")).decode()


def readable(text: str) -> str:
    """Return text as a message can hold it: with U+FFFD in place of each lone surrogate."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def text_of(content: object) -> str:
    """Return the text of a message's content for a person who reads it.

    Args:
        content: a str, None, or a list of parts as the APIs of models have them; a part without
            text, such as an image, is named by its type.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list | tuple):
        return "\n".join(map(text_of, content))
    if not isinstance(content, dict):
        return encoded(content)
    for key in ("text", "refusal", "transcript", "thinking"):
        if isinstance(content.get(key), str):
            return str(content[key])
    kind = content.get("type")
    if kind == "tool_use":
        return f"{content.get('name')}({encoded(content.get('input'))})"
    if kind == "tool_result":
        return text_of(content.get("content"))
    return f"[{kind}]" if isinstance(kind, str) else encoded(content)


def item_message(
    key: str,
    item: object,
    *,
    conversation_id: str,
    user_id: str,
    role: MessageRole,
    content: str,
    **fields: Any,
) -> Message:
    """Return a new message that holds an item, under an id of its own.

    Args:
        key: the adapter's key in `metadata`, under which the item stands as JSON text.
        item: what the framework stores.
        conversation_id: the conversation of the message.
        user_id: its user.
        role: what a person who reads the conversation sees as the author.
        content: what that person reads.
        fields: other fields of the message; `metadata` is added to.
    """
    metadata = {**fields.pop("metadata", {}), key: encoded(item)}
    return Message(
        conversation_id=conversation_id,
        user_id=user_id,
        role=role,
        original_content=readable(content),
        metadata=metadata,
        **fields,
    )


def item_of(message: Message, key: str, default: T) -> Any | T:
    """Return the item that a message holds under a key, or the default if it holds none."""
    text = message.metadata.get(key)
    return decoded(text) if isinstance(text, str) else default


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


@contextmanager
def supported(package: str, oldest: str, too_new: str) -> Iterator[None]:
    """Import a framework in the block, if its version is `oldest` or later, and before `too_new`.

    Raises:
        ImportError: it is not installed, too old, or too new.
    """
    wanted = f"pip install '{package}>={oldest},<{too_new}'"
    try:
        found = version(package)
    except PackageNotFoundError:
        raise ImportError(f"This adapter needs {package}: {wanted}") from None
    if not _numbers(oldest) <= _numbers(found) < _numbers(too_new):
        raise ImportError(f"This adapter does not work with {package} {found}: {wanted}")
    yield


def _numbers(number: str) -> list[int]:
    return [int(one) for one in re.findall(r"\d+", number)[:3]]
