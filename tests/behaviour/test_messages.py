"""Messages are stored, found by id and deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine import IntegrityError
from jazzmine.core.message_store import Message, MessageRole, MessageStore
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
async def test_a_stored_message_is_read_back_with_every_field(
    chat: MessageStore, write: str
) -> None:
    stored = full_message()

    await getattr(chat, write)(stored)

    assert await chat.get_message_by_id("m1") == stored


async def test_a_message_is_read_back_with_its_defaults(chat: MessageStore) -> None:
    stored = message()

    await chat.store_message(stored)

    found = await chat.get_message_by_id("m1")
    assert found == stored
    assert found is not None
    assert found.explicit_context is None
    assert found.invoked_tools is None
    assert found.metadata == {}


async def test_an_empty_list_is_not_the_same_as_none(chat: MessageStore) -> None:
    stored = message(explicit_context=[], invoked_flows=[], reasoning_steps=None, errors=[])

    await chat.store_message(stored)

    assert await chat.get_message_by_id("m1") == stored


@pytest.mark.parametrize("role", MessageRole, ids=lambda role: role.value)
async def test_every_role_is_read_back(chat: MessageStore, role: MessageRole) -> None:
    await chat.store_message(message(role=role))

    found = await chat.get_message_by_id("m1")

    assert found is not None
    assert found.role is role


async def test_a_message_that_is_not_stored_is_none(store: MessageStore) -> None:
    assert await store.get_message_by_id("m1") is None


@each_write
async def test_storing_a_message_again_replaces_all_of_it(chat: MessageStore, write: str) -> None:
    await chat.store_message(full_message())
    newer = message(original_content="other words")

    await getattr(chat, write)(newer)

    assert await chat.get_message_by_id("m1") == newer
    assert await chat.get_messages_by_conversation_id("c1") == [newer]


@each_write
async def test_storing_a_message_again_keeps_its_trace(chat: MessageStore, write: str) -> None:
    await chat.store_turn(messages=[message()], trace=trace())

    await getattr(chat, write)(message(original_content="other words"))

    assert await chat.get_turn_trace_by_message_id("m1") == trace()


async def test_messages_are_found_in_the_order_asked_for(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))

    found = await chat.get_messages_by_ids(["m3", "m1", "m2"])

    assert ids(found) == ["m3", "m1", "m2"]


async def test_messages_that_are_not_stored_are_left_out(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2"))

    found = await chat.get_messages_by_ids(["m2", "lost", "m1"])

    assert ids(found) == ["m2", "m1"]


async def test_a_message_asked_for_twice_is_found_twice(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2"))

    found = await chat.get_messages_by_ids(["m1", "m2", "m1"])

    assert ids(found) == ["m1", "m2", "m1"]


async def test_of_no_ids_nothing_is_found(chat: MessageStore) -> None:
    await chat.store_message(message())

    assert await chat.get_messages_by_ids([]) == []


async def test_ids_may_come_from_any_iterable(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2"))

    found = await chat.get_messages_by_ids(name for name in ("m2", "m1"))

    assert ids(found) == ["m2", "m1"]


async def test_several_messages_are_stored_at_once(chat: MessageStore) -> None:
    several = [full_message("m1"), message("m2"), full_message("m3")]

    await chat.store_messages(several)

    assert await chat.get_messages_by_conversation_id("c1") == several


async def test_messages_of_several_conversations_are_stored_at_once(chat: MessageStore) -> None:
    await chat.store_conversation(conversation("c2"))

    await chat.store_messages([message("m1"), message("m2", conversation_id="c2")])

    assert ids(await chat.get_messages_by_conversation_id("c1")) == ["m1"]
    assert ids(await chat.get_messages_by_conversation_id("c2")) == ["m2"]


@pytest.mark.smoke
async def test_storing_several_replaces_those_that_are_known(chat: MessageStore) -> None:
    await chat.store_message(full_message("m1"))

    await chat.store_messages([message("m2"), message("m1", timestamp=NOW + 1)])

    found = await chat.get_messages_by_conversation_id("c1")
    assert found == [message("m2"), message("m1", timestamp=NOW + 1)]


async def test_of_two_with_one_id_in_a_call_the_later_is_stored(chat: MessageStore) -> None:
    await chat.store_messages(
        [message("m1", original_content="first"), message("m2"), message("m1", intent="later")]
    )

    found = await chat.get_messages_by_conversation_id("c1")
    assert found == [message("m1", intent="later"), message("m2")]


async def test_messages_to_store_may_come_from_any_iterable(chat: MessageStore) -> None:
    await chat.store_messages(message(name) for name in ("m1", "m2"))

    assert ids(await chat.get_messages_by_conversation_id("c1")) == ["m1", "m2"]


async def test_storing_no_messages_does_nothing(chat: MessageStore) -> None:
    await chat.store_messages([])
    await chat.store_messages(iter(()))

    assert await chat.get_messages_by_conversation_id("c1") == []


async def test_of_messages_one_of_which_is_refused_none_is_stored(chat: MessageStore) -> None:
    await chat.store_message(message("m1"))
    some = [
        message("m1", original_content="other words"),
        message("m2"),
        message("m3", conversation_id="nowhere"),
        message("m4"),
    ]

    with pytest.raises(IntegrityError, match="nowhere"):
        await chat.store_messages(some)

    assert await chat.get_messages_by_user_id("u1") == [message("m1")]


async def test_if_one_of_several_values_is_no_message_none_is_stored(chat: MessageStore) -> None:
    some = [message("m1"), message("m2").model_dump()]

    with pytest.raises(TypeError, match="expected a Message, got a dict"):
        await chat.store_messages(some)  # type: ignore[arg-type]

    assert await chat.get_messages_by_conversation_id("c1") == []


async def test_messages_from_an_iterable_that_raises_are_not_stored(chat: MessageStore) -> None:
    def broken() -> Message:
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        await chat.store_messages(make() for make in (message, broken))

    assert await chat.get_messages_by_conversation_id("c1") == []


async def test_many_messages_are_stored_and_found_at_once(chat: MessageStore) -> None:
    many = [message(f"m{number:04}", timestamp=NOW + number) for number in range(1200)]

    await chat.store_messages(many)

    assert await chat.get_messages_by_conversation_id("c1") == many
    assert await chat.get_messages_by_ids(ids(many[::-1])) == many[::-1]
    assert [found async for found in chat.iter_messages("c1")] == many


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
async def test_a_message_never_moves_to_another_conversation(
    chat: MessageStore, write: Callable[[MessageStore, Message], Any]
) -> None:
    await chat.store_conversation(conversation("c2"))
    await chat.store_message(message())

    with pytest.raises(IntegrityError, match="m1"):
        await write(chat, message(conversation_id="c2", user_id="u2"))

    assert await chat.get_message_by_id("m2") is None
    assert await chat.get_message_by_id("m1") == message()
    assert await chat.get_messages_by_conversation_id("c2") == []


async def test_a_message_keeps_its_own_user(
    chat: MessageStore,
) -> None:
    await chat.store_message(message(user_id="a stranger"))

    assert await chat.get_messages_by_user_id("u1") == []
    assert ids(await chat.get_messages_by_user_id("a stranger")) == ["m1"]


# Deletion


async def test_deleting_a_message_returns_whether_it_was_stored(chat: MessageStore) -> None:
    await chat.store_message(message())

    assert await chat.delete_message("m1") is True
    assert await chat.delete_message("m1") is False


@pytest.mark.smoke
async def test_a_deleted_message_is_nowhere_to_be_found(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))

    await chat.delete_message("m2")

    assert await chat.get_message_by_id("m2") is None
    assert ids(await chat.get_messages_by_ids(["m1", "m2", "m3"])) == ["m1", "m3"]
    assert ids(await chat.get_messages_by_conversation_id("c1")) == ["m1", "m3"]
    assert ids(await chat.get_messages_by_user_id("u1")) == ["m1", "m3"]
    assert ids(await chat.get_immediate_context("c1", 5)) == ["m1", "m3"]
    assert await chat.flag_message("m2") is False


async def test_deleting_a_message_deletes_its_trace_and_no_other(chat: MessageStore) -> None:
    await chat.store_turn(messages=[message("m1")], trace=trace("m1"))
    await chat.store_turn(messages=[message("m2")], trace=trace("m2"))

    await chat.delete_message("m1")

    assert await chat.get_turn_trace_by_id("trace-of-m1") is None
    assert await chat.get_turn_trace_by_message_id("m1") is None
    assert ids(await chat.get_turn_traces_by_conversation_id("c1")) == ["trace-of-m2"]
    assert ids(await chat.get_turn_traces_by_agent_id("a1")) == ["trace-of-m2"]


async def test_a_message_deleted_and_stored_again_has_no_trace(chat: MessageStore) -> None:
    await chat.store_turn(messages=[message()], trace=trace())

    await chat.delete_message("m1")
    await chat.store_message(message())

    assert await chat.get_turn_trace_by_message_id("m1") is None
