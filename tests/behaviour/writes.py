"""Writes that several tests need."""

from __future__ import annotations

from jazzmine import TurnTrace
from jazzmine.core.message_store import MessageStore
from tests.behaviour.samples import conversation, message


async def store_traces(store: MessageStore, *traces: TurnTrace) -> None:
    """Store traces one after another, each with its message and conversation."""
    for trace in traces:
        owner = trace.conversation_id
        await store.get_or_create_conversation(conversation(owner))
        await store.store_turn(
            messages=[message(trace.message_id, conversation_id=owner)], trace=trace
        )
