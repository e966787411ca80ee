"""All records of a store, for programs that move or compare whole stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from jazzmine._async.message_store.store import MessageStore
from jazzmine.records.base import Record, RecordKind
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.rows import RowDecoder
from jazzmine.records.traces import TurnTrace
from jazzmine.records.unreadable import Unreadable

__all__ = ["iter_records"]

_KINDS: dict[RecordKind, type[Record]] = {
    "conversations": Conversation,
    "messages": Message,
    "traces": TurnTrace,
}


async def iter_records(
    store: MessageStore, kind: RecordKind, size: int
) -> AsyncIterator[list[Any]]:
    """Yield all readable records of a kind in the order in which their ids were first stored.

    Args:
        store: an open store.
        kind: which records.
        size: how many rows are read at a time, at the most.
    """
    decoder = RowDecoder(_KINDS[kind], Unreadable())
    async for rows in store.backend.iter_stored(kind, size):
        yield decoder.records(rows)
