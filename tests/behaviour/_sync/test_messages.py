"""Messages are stored, found by id and deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine import IntegrityError
from jazzmine.sync.message_store import Message, MessageRole, MessageStore
from tests.behaviour.samples import (
    NOW,
    conversation,
    full_message,
    ids,
    message,
    messages,
    trace,
)

each_write = pytest.mark.parametrize("write", ["store_message", "update_message"])


@pytest.mark.smoke
@each_write
def test_a_stored_message_is_read_back_with_every_field(
    chat: MessageStore, write: str
) -> None:
    stored = full_message()

    getattr(chat, write)(stored)

    assert chat.get_message_by_id("m1") == stored


def test_a_message_is_read_back_with_its_defaults(chat: MessageStore) -> None:
    stored = message()

    chat.store_message(stored)

    found = chat.get_message_by_id("m1")
    assert found == stored
    assert found is not None
    assert found.explicit_context is None
    assert found.invoked_tools is None
    assert found.metadata == {}


def test_an_empty_list_is_not_the_same_as_none(chat: MessageStore) -> None:
    stored = message(explicit_context=[], invoked_flows=[], reasoning_steps=None, errors=[])

    chat.store_message(stored)

    assert chat.get_message_by_id("m1") == stored


@pytest.mark.parametrize("role", MessageRole, ids=lambda role: role.value)
def test_every_role_is_read_back(chat: MessageStore, role: MessageRole) -> None:
    chat.store_message(message(role=role))

    found = chat.get_message_by_id("m1")

    assert found is not None
    assert found.role is role


def test_a_message_that_is_not_stored_is_none(store: MessageStore) -> None:
    assert store.get_message_by_id("m1") is None


@each_write
def test_storing_a_message_again_replaces_all_of_it(chat: MessageStore, write: str) -> None:
    chat.store_message(full_message())
    newer = message(original_content="other words")

    getattr(chat, write)(newer)

    assert chat.get_message_by_id("m1") == newer
    assert chat.get_messages_by_conversation_id("c1") == [newer]


@each_write
def test_storing_a_message_again_keeps_its_trace(chat: MessageStore, write: str) -> None:
    chat.store_turn(messages=[message()], trace=trace())

    getattr(chat, write)(message(original_content="other words"))

    assert chat.get_turn_trace_by_message_id("m1") == trace()


def test_messages_are_found_in_the_order_asked_for(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))

    found = chat.get_messages_by_ids(["m3", "m1", "m2"])

    assert ids(found) == ["m3", "m1", "m2"]


def test_messages_that_are_not_stored_are_left_out(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2"))

    found = chat.get_messages_by_ids(["m2", "lost", "m1"])

    assert ids(found) == ["m2", "m1"]


def test_a_message_asked_for_twice_is_found_twice(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2"))

    found = chat.get_messages_by_ids(["m1", "m2", "m1"])

    assert ids(found) == ["m1", "m2", "m1"]


def test_of_no_ids_nothing_is_found(chat: MessageStore) -> None:
    chat.store_message(message())

    assert chat.get_messages_by_ids([]) == []


def test_ids_may_come_from_any_iterable(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2"))

    found = chat.get_messages_by_ids(name for name in ("m2", "m1"))

    assert ids(found) == ["m2", "m1"]


def test_several_messages_are_stored_at_once(chat: MessageStore) -> None:
    several = [full_message("m1"), message("m2"), full_message("m3")]

    chat.store_messages(several)

    assert chat.get_messages_by_conversation_id("c1") == several


def test_messages_of_several_conversations_are_stored_at_once(chat: MessageStore) -> None:
    chat.store_conversation(conversation("c2"))

    chat.store_messages([message("m1"), message("m2", conversation_id="c2")])

    assert ids(chat.get_messages_by_conversation_id("c1")) == ["m1"]
    assert ids(chat.get_messages_by_conversation_id("c2")) == ["m2"]


@pytest.mark.smoke
def test_storing_several_replaces_those_that_are_known(chat: MessageStore) -> None:
    chat.store_message(full_message("m1"))

    chat.store_messages([message("m2"), message("m1", timestamp=NOW + 1)])

    found = chat.get_messages_by_conversation_id("c1")
    assert found == [message("m2"), message("m1", timestamp=NOW + 1)]


def test_of_two_with_one_id_in_a_call_the_later_is_stored(chat: MessageStore) -> None:
    chat.store_messages(
        [message("m1", original_content="first"), message("m2"), message("m1", intent="later")]
    )

    found = chat.get_messages_by_conversation_id("c1")
    assert found == [message("m1", intent="later"), message("m2")]


def test_messages_to_store_may_come_from_any_iterable(chat: MessageStore) -> None:
    chat.store_messages(message(name) for name in ("m1", "m2"))

    assert ids(chat.get_messages_by_conversation_id("c1")) == ["m1", "m2"]


def test_storing_no_messages_does_nothing(chat: MessageStore) -> None:
    chat.store_messages([])
    chat.store_messages(iter(()))

    assert chat.get_messages_by_conversation_id("c1") == []


def test_of_messages_one_of_which_is_refused_none_is_stored(chat: MessageStore) -> None:
    chat.store_message(message("m1"))
    some = [
        message("m1", original_content="other words"),
        message("m2"),
        message("m3", conversation_id="nowhere"),
        message("m4"),
    ]

    with pytest.raises(IntegrityError, match="nowhere"):
        chat.store_messages(some)

    assert chat.get_messages_by_user_id("u1") == [message("m1")]


def test_if_one_of_several_values_is_no_message_none_is_stored(chat: MessageStore) -> None:
    some = [message("m1"), message("m2").model_dump()]

    with pytest.raises(TypeError, match="expected a Message, got a dict"):
        chat.store_messages(some)  # type: ignore[arg-type]

    assert chat.get_messages_by_conversation_id("c1") == []


def test_messages_from_an_iterable_that_raises_are_not_stored(chat: MessageStore) -> None:
    def broken() -> Message:
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        chat.store_messages(make() for make in (message, broken))

    assert chat.get_messages_by_conversation_id("c1") == []


def test_many_messages_are_stored_and_found_at_once(chat: MessageStore) -> None:
    many = [message(f"m{number:04}", timestamp=NOW + number) for number in range(1200)]

    chat.store_messages(many)

    assert chat.get_messages_by_conversation_id("c1") == many
    assert chat.get_messages_by_ids(ids(many[::-1])) == many[::-1]
    assert [found for found in chat.iter_messages("c1")] == many


@pytest.mark.each_value
@pytest.mark.parametrize(
    "write",
    [
        lambda chat, moved: chat.store_message(moved),
        lambda chat, moved: chat.store_messages([message("m2"), moved]),
        lambda chat, moved: chat.append_messages("c2", [moved]),
        lambda chat, moved: chat.store_turn(messages=[moved]),
    ],
    ids=["store_message", "store_messages", "append_messages", "store_turn"],
)
def test_a_message_never_moves_to_another_conversation(
    chat: MessageStore, write: Callable[[MessageStore, Message], Any]
) -> None:
    chat.store_conversation(conversation("c2"))
    chat.store_message(message())

    with pytest.raises(IntegrityError, match="m1"):
        write(chat, message(conversation_id="c2", user_id="u2"))

    assert chat.get_message_by_id("m2") is None
    assert chat.get_message_by_id("m1") == message()
    assert chat.get_messages_by_conversation_id("c2") == []


def test_a_message_keeps_its_own_user(
    chat: MessageStore,
) -> None:
    chat.store_message(message(user_id="a stranger"))

    assert chat.get_messages_by_user_id("u1") == []
    assert ids(chat.get_messages_by_user_id("a stranger")) == ["m1"]


# Deletion


def test_deleting_a_message_returns_whether_it_was_stored(chat: MessageStore) -> None:
    chat.store_message(message())

    assert chat.delete_message("m1") is True
    assert chat.delete_message("m1") is False


@pytest.mark.smoke
def test_a_deleted_message_is_nowhere_to_be_found(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))

    chat.delete_message("m2")

    assert chat.get_message_by_id("m2") is None
    assert ids(chat.get_messages_by_ids(["m1", "m2", "m3"])) == ["m1", "m3"]
    assert ids(chat.get_messages_by_conversation_id("c1")) == ["m1", "m3"]
    assert ids(chat.get_messages_by_user_id("u1")) == ["m1", "m3"]
    assert ids(chat.get_immediate_context("c1", 5)) == ["m1", "m3"]
    assert chat.flag_message("m2") is False


def test_deleting_a_message_deletes_its_trace_and_no_other(chat: MessageStore) -> None:
    chat.store_turn(messages=[message("m1")], trace=trace("m1"))
    chat.store_turn(messages=[message("m2")], trace=trace("m2"))

    chat.delete_message("m1")

    assert chat.get_turn_trace_by_id("trace-of-m1") is None
    assert chat.get_turn_trace_by_message_id("m1") is None
    assert ids(chat.get_turn_traces_by_conversation_id("c1")) == ["trace-of-m2"]
    assert ids(chat.get_turn_traces_by_agent_id("a1")) == ["trace-of-m2"]


def test_a_message_deleted_and_stored_again_has_no_trace(chat: MessageStore) -> None:
    chat.store_turn(messages=[message()], trace=trace())

    chat.delete_message("m1")
    chat.store_message(message())

    assert chat.get_turn_trace_by_message_id("m1") is None
