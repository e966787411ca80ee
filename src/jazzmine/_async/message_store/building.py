"""Build what is sent to a server, without keeping the other calls of an event loop waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from jazzmine._compat.async_concurrency import run_blocking
from jazzmine.records.base import Snapshot
from jazzmine.records.messages import Message

__all__ = ["built"]

T = TypeVar("T")

# Building so much takes about as long as passing it to a thread and back.
_FEW_MESSAGES, _FEW_CHARACTERS = 100, 100_000


async def built(build: Callable[[], T], messages: Sequence[Snapshot[Message]]) -> T:
    """Return what a function builds of messages; in a thread if there are many, or large ones.

    Args:
        build: takes nothing.
    """
    size = sum(len(message.record.original_content) for message in messages)
    if len(messages) <= _FEW_MESSAGES and size <= _FEW_CHARACTERS:
        return build()
    return await run_blocking(build)
