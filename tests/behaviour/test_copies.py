"""The records of a caller and those of a store are separate copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine.core.message_store import Conversation, Entity, Message, MessageStore, TraceFilter
from jazzmine.core.message_store import TurnTrace as Trace
from tests.behaviour.apis import take
from tests.behaviour.samples import conversation, full_message, full_trace

NESTED: dict[str, Any] = {"list": [1, {"deep": [2]}], "text": "as it was"}

READS: dict[str, Callable[[Any], Any]] = {
    "get_conversation_by_id": lambda store: store.get_conversation_by_id("c1"),
    "get_conversations_by_user_id": lambda store: store.get_conversations_by_user_id("u1"),
    "get_conversations_by_agent_id": lambda store: store.get_conversations_by_agent_id("a1"),
    "get_message_by_id": lambda store: store.get_message_by_id("m1"),
    "get_messages_by_ids": lambda store: store.get_messages_by_ids(["m1"]),
    "get_messages_by_conversation_id": lambda store: store.get_messages_by_conversation_id("c1"),
    "get_messages_by_user_id": lambda store: store.get_messages_by_user_id("u1"),
    "get_immediate_context": lambda store: store.get_immediate_context("c1", 1),
    "iter_messages": lambda store: take(store.iter_messages("c1"), 1),
    "get_turn_trace_by_id": lambda store: store.get_turn_trace_by_id("trace-of-m1"),
    "get_turn_trace_by_message_id": lambda store: store.get_turn_trace_by_message_id("m1"),
    "get_turn_traces_by_conversation_id": lambda store: store.get_turn_traces_by_conversation_id(
        "c1"
    ),
    "get_turn_traces_by_agent_id": lambda store: store.get_turn_traces_by_agent_id("a1"),
    "find_turn_traces": lambda store: store.find_turn_traces(TraceFilter()),
}
WRITES: dict[str, Callable[[Any, Conversation, list[Message], Trace], Any]] = {
    "store_conversation": lambda store, whole, said, traced: store.store_conversation(whole),
    "store_message": lambda store, whole, said, traced: store.store_message(said[0]),
    "update_message": lambda store, whole, said, traced: store.update_message(said[0]),
    "store_messages": lambda store, whole, said, traced: store.store_messages(said),
    "store_turn_trace": lambda store, whole, said, traced: store.store_turn_trace(traced),
    "store_turn": lambda store, whole, said, traced: store.store_turn(
        conversation=whole, messages=said, trace=traced
    ),
}
ONE_OF_EACH = ("get_conversation_by_id", "get_message_by_id", "get_turn_trace_by_id")


def only(found: Any) -> Any:
    """Return the record, or the only record in the list."""
    return found[0] if isinstance(found, list) else found


def plain_conversation() -> Conversation:
    return conversation(metadata=NESTED)


def plain_message() -> Message:
    return full_message(metadata=NESTED, is_flagged=False)


def spoil_conversation(record: Conversation) -> None:
    """Change every mutable part of a conversation."""
    record.title = "spoilt"
    record.metadata["text"] = "spoilt"
    record.metadata["list"][1]["deep"].append("spoilt")


def spoil_message(record: Message) -> None:
    """Change every mutable part of a message."""
    record.original_content = "spoilt"
    record.explicit_context = [*(record.explicit_context or []), "spoilt"]
    record.entities[0].name = "spoilt"
    record.entities[0].attributes.append("spoilt")
    record.entities.append(Entity(name="spoilt"))
    for texts in (record.invoked_flows, record.invoked_tools, record.reasoning_steps):
        assert texts is not None
        texts.append("spoilt")
    assert record.errors is not None
    record.errors.clear()
    record.metadata["text"] = "spoilt"
    record.metadata["list"][1]["deep"].append("spoilt")


def spoil_trace(record: Trace) -> None:
    """Change a trace at every level."""
    record.detected_intent = "spoilt"
    record.errors.append("spoilt")
    record.llm_calls[0].model = "spoilt"
    record.llm_calls.pop()
    record.tool_traces[0].generation_attempts.clear()
    record.tool_traces[0].final_data["rows"].append("spoilt")
    record.tool_traces[0].intermediates[0]["text"] = "spoilt"
    record.slot_events[0].value.clear()
    record.emission_records[0].metadata["text"] = "spoilt"


SPOIL: dict[type[Any], Callable[[Any], None]] = {
    Conversation: spoil_conversation,
    Message: spoil_message,
    Trace: spoil_trace,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
async def test_changing_what_was_read_changes_nothing(
    store: MessageStore, read: Callable[[Any], Any]
) -> None:
    stored: tuple[Any, ...] = (plain_conversation(), plain_message(), full_trace())
    await store.store_turn(conversation=stored[0], messages=[stored[1]], trace=stored[2])

    found = only(await read(store))
    assert found in stored
    SPOIL[type(found)](found)

    assert only(await read(store)) in stored


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_changing_what_was_stored_changes_nothing(
    chat: MessageStore, write: Callable[..., Any]
) -> None:
    await chat.store_message(full_message(text="before"))
    whole, said, traced = plain_conversation(), [plain_message()], full_trace()
    await write(chat, whole, said, traced)
    stored = [only(await READS[name](chat)) for name in ONE_OF_EACH]

    spoil_conversation(whole)
    spoil_message(said[0])
    said.clear()
    spoil_trace(traced)

    assert [only(await READS[name](chat)) for name in ONE_OF_EACH] == stored


async def test_storing_does_not_change_its_arguments(chat: MessageStore) -> None:
    said, traced = plain_message(), full_trace()

    await chat.store_turn(messages=[said], trace=traced)
    await chat.flag_message("m1")

    assert (said, traced) == (plain_message(), full_trace())
