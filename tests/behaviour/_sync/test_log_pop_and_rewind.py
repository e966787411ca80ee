"""The newest message, or all messages after one, are deleted with their traces."""

from __future__ import annotations

import pytest

from jazzmine import NotFoundError
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import (
    NOW,
    conversation,
    full_message,
    ids,
    message,
    messages,
    trace,
)


def stored_ids(store: MessageStore, conversation_id: str = "c1") -> list[str]:
    return ids(store.get_messages_by_conversation_id(conversation_id))


@pytest.mark.smoke
def test_the_newest_message_is_deleted_and_returned(chat: MessageStore) -> None:
    newest = full_message(id="m2", conversation_id="c1").model_copy(update={"timestamp": NOW + 1})
    chat.store_messages([newest, message("m1")])

    assert chat.pop_message("c1") == newest
    assert stored_ids(chat) == ["m1"]


def test_of_equal_timestamps_the_one_stored_last_is_popped(chat: MessageStore) -> None:
    chat.store_messages(messages("b", "c", "a"))
    chat.update_message(message("b", original_content="changed"))

    popped = [chat.pop_message("c1") for _ in range(4)]

    assert popped == [message("a"), message("c"), message("b", original_content="changed"), None]


def test_a_flagged_message_is_popped_as_any_other(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2"))
    chat.flag_message("m2")

    assert chat.pop_message("c1") == message("m2", is_flagged=True)


def test_a_popped_message_takes_its_trace_with_it(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2"))
    chat.store_turn_trace(trace("m1", id="t1"))
    chat.store_turn_trace(trace("m2", id="t2"))

    chat.pop_message("c1")

    assert chat.get_turn_trace_by_id("t2") is None
    assert chat.get_turn_trace_by_id("t1") == trace("m1", id="t1")


def test_there_is_nothing_to_pop_in_an_empty_or_unknown_conversation(
    chat: MessageStore,
) -> None:
    assert chat.pop_message("c1") is None
    assert chat.pop_message("nowhere") is None


def test_a_popped_message_can_be_appended_again(chat: MessageStore) -> None:
    chat.append_messages("c1", messages("m1", "m2"))
    popped = chat.pop_message("c1")
    assert popped is not None

    chat.append_messages("c1", [popped, message("m3")], expected_last="m1")

    assert stored_ids(chat) == ["m1", "m2", "m3"]


@pytest.mark.smoke
def test_all_messages_after_one_are_deleted_and_counted(chat: MessageStore) -> None:
    chat.store_conversation(conversation("c2"))
    chat.store_messages(
        [*messages("m1", "m2", "m3", "m4"), message("x", conversation_id="c2", timestamp=NOW + 9)]
    )

    assert chat.rewind_conversation("c1", after="m2") == 2
    assert chat.rewind_conversation("c1", after="m2") == 0
    assert stored_ids(chat) == ["m1", "m2"]
    assert stored_ids(chat, "c2") == ["x"]


def test_rewinding_follows_the_order_of_messages(chat: MessageStore) -> None:
    chat.store_messages(
        [message("d", timestamp=NOW + 2), *messages("b", "a", "c"), message("e", timestamp=NOW - 1)]
    )

    assert chat.rewind_conversation("c1", after="a") == 2
    assert stored_ids(chat) == ["e", "b", "a"]


def test_everything_is_deleted_after_none(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2", is_flagged=True))

    assert chat.rewind_conversation("c1", after=None) == 2
    assert stored_ids(chat) == []
    assert chat.get_conversation_by_id("c1") == conversation()


def test_traces_of_deleted_messages_are_deleted(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))
    for number in (1, 2, 3):
        chat.store_turn_trace(trace(f"m{number}", id=f"t{number}", turn_number=number))

    chat.rewind_conversation("c1", after="m1")

    assert ids(chat.get_turn_traces_by_conversation_id("c1")) == ["t1"]
    assert chat.get_turn_trace_by_id("t3") is None


def test_last_updated_at_stays(chat: MessageStore) -> None:
    chat.append_messages("c1", [message("m1"), message("m2", timestamp=NOW + 5)])

    chat.pop_message("c1")
    chat.rewind_conversation("c1", after=None)

    found = chat.get_conversation_by_id("c1")
    assert found is not None
    assert found.last_updated_at == NOW + 5


def test_there_is_nothing_to_delete_in_an_empty_or_unknown_conversation(
    chat: MessageStore,
) -> None:
    assert chat.rewind_conversation("c1", after=None) == 0
    assert chat.rewind_conversation("nowhere", after=None) == 0


@pytest.mark.parametrize("conversation_id", ["c1", "c2", "nowhere"])
def test_a_message_of_another_conversation_is_not_found(
    chat: MessageStore, conversation_id: str
) -> None:
    chat.store_conversation(conversation("c2"))
    chat.store_conversation(conversation("c3"))
    chat.store_messages([message("m1"), message("m2", conversation_id="c2")])
    chat.store_message(message("m3", conversation_id="c3"))

    with pytest.raises(NotFoundError, match="m3"):
        chat.rewind_conversation(conversation_id, after="m3")

    assert stored_ids(chat) == ["m1"]
    assert stored_ids(chat, "c2") == ["m2"]
