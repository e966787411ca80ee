"""A conversation is copied with its messages and traces, up to a message, under new ids."""

from __future__ import annotations

import pytest

from jazzmine import TraceFilter
from jazzmine.core.message_store import Message, MessageStore
from tests.behaviour.samples import (
    NOW,
    conversation,
    full_message,
    full_trace,
    message,
    messages,
)


def copied(original: Message, new_ids: dict[str, str], owner: str) -> Message:
    return original.model_copy(update={"id": new_ids[original.id], "conversation_id": owner})


@pytest.mark.smoke
async def test_messages_are_copied_in_order_with_all_their_fields(chat: MessageStore) -> None:
    await chat.store_messages(
        [
            full_message("m3", timestamp=NOW + 2),
            *messages("b", "c", "a"),
            message("m1", timestamp=NOW - 1, is_flagged=True),
        ]
    )
    before = await chat.get_messages_by_conversation_id("c1")

    new_ids = await chat.fork_conversation("c1", conversation("c2", title="Copy"))

    assert list(new_ids) == ["m1", "b", "c", "a", "m3"]
    expected = [copied(one, new_ids, "c2") for one in before]
    assert await chat.get_messages_by_conversation_id("c2") == expected
    assert await chat.get_conversation_by_id("c2") == conversation("c2", title="Copy")


async def test_traces_are_copied_under_new_ids(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))
    originals = [full_trace(f"m{n}", id=f"t{n}", turn_number=5) for n in (3, 1, 2)]
    for one in originals:
        await chat.store_turn_trace(one)

    new_ids = await chat.fork_conversation("c1", conversation("c2"), until="m2")

    found = await chat.get_turn_traces_by_conversation_id("c2")
    assert [one.message_id for one in found] == [new_ids["m1"], new_ids["m2"]]
    assert {one.id for one in found}.isdisjoint({"t1", "t2", "t3"})
    moved = {"message_id": new_ids["m1"], "conversation_id": "c2", "id": found[0].id}
    moved["copied_from"] = "t1"
    assert found[0] == originals[1].model_copy(update=moved)
    assert await chat.get_turn_trace_by_message_id(new_ids["m2"]) == found[1]
    assert len(await chat.find_turn_traces(TraceFilter(conversation_id="c2"))) == 2
    assert len(await chat.find_turn_traces(TraceFilter())) == 5


async def test_strange_ids_and_texts_are_copied(chat: MessageStore) -> None:
    text = "\0 \\u0000 é \U0001f600 {} $ 'quoted' \\ %s"
    strange = full_message(text, text, metadata={"$a.b": [2**63 - 1, text, {"": None}]})
    await chat.append_messages("c1", [strange])
    await chat.store_turn_trace(full_trace(text, text, id=text))

    new_ids = await chat.fork_conversation("c1", conversation("c2"), until=text)

    [found] = await chat.get_messages_by_conversation_id("c2")
    assert found == copied(strange, new_ids, "c2")
    [copy] = await chat.get_turn_traces_by_conversation_id("c2")
    moved = {"id": copy.id, "message_id": found.id, "conversation_id": "c2"}
    moved["copied_from"] = text
    assert copy == full_trace(text, text).model_copy(update=moved)
