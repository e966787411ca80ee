"""The records of a caller and those of a store are separate copies."""

from __future__ import annotations

from jazzmine.core.message_store import Conversation, Message, MessageStore, TraceFilter, TurnTrace
from tests.behaviour.samples import conversation, full_message, full_trace

Turn = tuple[Conversation, list[Message], TurnTrace]


def new_turn() -> Turn:
    nested = {"list": [1, {"deep": [2]}], "text": "as it was"}
    return conversation(metadata=nested), [full_message(metadata=nested)], full_trace()


def spoil(turn: Turn) -> None:
    """Change mutable parts at every level."""
    whole, said, traced = turn
    for metadata in (whole.metadata, said[0].metadata):
        metadata["text"] = "spoilt"
        metadata["list"][1]["deep"].append("spoilt")
    said[0].entities[0].attributes.append("spoilt")
    said.clear()
    traced.llm_calls[0].model = "spoilt"
    traced.llm_calls.pop()
    traced.tool_traces[0].final_data["rows"].append("spoilt")
    traced.slot_events[0].value.clear()


async def read(store: MessageStore) -> Turn:
    [whole] = await store.get_conversations()
    [traced] = await store.find_turn_traces(TraceFilter())
    return whole, await store.get_messages_by_conversation_id("c1"), traced


async def test_changing_what_was_stored_or_read_changes_nothing(store: MessageStore) -> None:
    given = new_turn()
    await store.store_turn(conversation=given[0], messages=given[1], trace=given[2])
    assert given == new_turn()

    spoil(given)
    found = await read(store)
    assert found == new_turn()
    spoil(found)

    assert await read(store) == new_turn()


async def test_changing_what_was_appended_changes_nothing(chat: MessageStore) -> None:
    given = new_turn()
    returned = await chat.append_messages("c1", given[1], trace=given[2])

    spoil(given)
    spoil((given[0], returned, full_trace()))

    assert (await read(chat))[1:] == new_turn()[1:]
