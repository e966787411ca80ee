"""Writes that many tests use to prepare a store."""

from __future__ import annotations

from jazzmine.sync.message_store import MessageStore, TurnTrace
from tests.behaviour.samples import message

__all__ = ["store_traces"]


def store_traces(store: MessageStore, *traces: TurnTrace) -> None:
    """Store traces and their messages."""
    for one in traces:
        store.store_turn(messages=[message(one.message_id)], trace=one)
