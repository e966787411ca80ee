"""The newest message, or all messages after one, are deleted with their traces."""

from __future__ import annotations

import pytest

from jazzmine import NotFoundError
from jazzmine.core.message_store import MessageStore
from tests.behaviour.samples import (
    NOW,
    conversation,
    full_message,
    ids,
    message,
    messages,
    trace,
)


async def stored_ids(store: MessageStore, conversation_id: str = "c1") -> list[str]:
    return ids(await store.get_messages_by_conversation_id(conversation_id))


@pytest.mark.smoke
async def test_the_newest_message_is_deleted_and_returned(chat: MessageStore) -> None:
    newest = full_message(id="m2", conversation_id="c1").model_copy(update={"timestamp": NOW + 1})
    await chat.store_messages([newest, message("m1")])

    assert await chat.pop_message("c1") == newest
    assert await stored_ids(chat) == ["m1"]


async def test_of_equal_timestamps_the_one_stored_last_is_popped(chat: MessageStore) -> None:
    await chat.store_messages(messages("b", "c", "a"))
    await chat.update_message(message("b", original_content="changed"))

    popped = [await chat.pop_message("c1") for _ in range(4)]

    assert popped == [message("a"), message("c"), message("b", original_content="changed"), None]


async def test_a_flagged_message_is_popped_as_any_other(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2"))
    await chat.flag_message("m2")

    assert await chat.pop_message("c1") == message("m2", is_flagged=True)


async def test_a_popped_message_takes_its_trace_with_it(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2"))
    await chat.store_turn_trace(trace("m1", id="t1"))
    await chat.store_turn_trace(trace("m2", id="t2"))

    await chat.pop_message("c1")

    assert await chat.get_turn_trace_by_id("t2") is None
    assert await chat.get_turn_trace_by_id("t1") == trace("m1", id="t1")


async def test_there_is_nothing_to_pop_in_an_empty_or_unknown_conversation(
    chat: MessageStore,
) -> None:
    assert await chat.pop_message("c1") is None
    assert await chat.pop_message("nowhere") is None


async def test_a_popped_message_can_be_appended_again(chat: MessageStore) -> None:
    await chat.append_messages("c1", messages("m1", "m2"))
    popped = await chat.pop_message("c1")
    assert popped is not None

    await chat.append_messages("c1", [popped, message("m3")], expected_last="m1")

    assert await stored_ids(chat) == ["m1", "m2", "m3"]


@pytest.mark.smoke
async def test_all_messages_after_one_are_deleted_and_counted(chat: MessageStore) -> None:
    await chat.store_conversation(conversation("c2"))
    await chat.store_messages(
        [*messages("m1", "m2", "m3", "m4"), message("x", conversation_id="c2", timestamp=NOW + 9)]
    )

    assert await chat.rewind_conversation("c1", after="m2") == 2
    assert await chat.rewind_conversation("c1", after="m2") == 0
    assert await stored_ids(chat) == ["m1", "m2"]
    assert await stored_ids(chat, "c2") == ["x"]


async def test_rewinding_follows_the_order_of_messages(chat: MessageStore) -> None:
    await chat.store_messages(
        [message("d", timestamp=NOW + 2), *messages("b", "a", "c"), message("e", timestamp=NOW - 1)]
    )

    assert await chat.rewind_conversation("c1", after="a") == 2
    assert await stored_ids(chat) == ["e", "b", "a"]


async def test_everything_is_deleted_after_none(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2", is_flagged=True))

    assert await chat.rewind_conversation("c1", after=None) == 2
    assert await stored_ids(chat) == []
    assert await chat.get_conversation_by_id("c1") == conversation()


async def test_traces_of_deleted_messages_are_deleted(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))
    for number in (1, 2, 3):
        await chat.store_turn_trace(trace(f"m{number}", id=f"t{number}", turn_number=number))

    await chat.rewind_conversation("c1", after="m1")

    assert ids(await chat.get_turn_traces_by_conversation_id("c1")) == ["t1"]
    assert await chat.get_turn_trace_by_id("t3") is None


async def test_last_updated_at_stays(chat: MessageStore) -> None:
    await chat.append_messages("c1", [message("m1"), message("m2", timestamp=NOW + 5)])

    await chat.pop_message("c1")
    await chat.rewind_conversation("c1", after=None)

    found = await chat.get_conversation_by_id("c1")
    assert found is not None
    assert found.last_updated_at == NOW + 5


async def test_there_is_nothing_to_delete_in_an_empty_or_unknown_conversation(
    chat: MessageStore,
) -> None:
    assert await chat.rewind_conversation("c1", after=None) == 0
    assert await chat.rewind_conversation("nowhere", after=None) == 0


@pytest.mark.parametrize("conversation_id", ["c1", "c2", "nowhere"])
async def test_a_message_of_another_conversation_is_not_found(
    chat: MessageStore, conversation_id: str
) -> None:
    await chat.store_conversation(conversation("c2"))
    await chat.store_conversation(conversation("c3"))
    await chat.store_messages([message("m1"), message("m2", conversation_id="c2")])
    await chat.store_message(message("m3", conversation_id="c3"))

    with pytest.raises(NotFoundError, match="m3"):
        await chat.rewind_conversation(conversation_id, after="m3")

    assert await stored_ids(chat) == ["m1"]
    assert await stored_ids(chat, "c2") == ["m2"]
