"""Writes that many tests use to prepare a store."""

from __future__ import annotations

from jazzmine.core.message_store import MessageStore, TurnTrace
from tests.behaviour.samples import message

__all__ = ["store_traces"]


async def store_traces(store: MessageStore, *traces: TurnTrace) -> None:
    """Store traces and their messages."""
    for one in traces:
        await store.store_turn(messages=[message(one.message_id)], trace=one)
