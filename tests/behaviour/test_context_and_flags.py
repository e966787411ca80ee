"""The immediate context is the newest messages, without those that are flagged."""

from __future__ import annotations

import pytest

from jazzmine.core.message_store import MessageStore
from tests.behaviour.samples import NOW, full_message, ids, message, messages, trace


async def context(store: MessageStore, n: int) -> list[str]:
    """The ids of the immediate context of the conversation "c1"."""
    return ids(await store.get_immediate_context("c1", n))


@pytest.mark.smoke
async def test_the_context_is_the_newest_messages_oldest_first(chat: MessageStore) -> None:
    await chat.store_message(message("third", timestamp=NOW + 3))
    await chat.store_message(message("first", timestamp=NOW + 1))
    await chat.store_message(message("fourth", timestamp=NOW + 4))
    await chat.store_message(message("second", timestamp=NOW + 2))

    assert await context(chat, 3) == ["second", "third", "fourth"]


async def test_of_equally_new_messages_the_context_has_the_latest_stored(
    chat: MessageStore,
) -> None:
    await chat.store_messages(messages("c", "a", "d", "b"))

    assert await context(chat, 2) == ["d", "b"]


async def test_the_context_is_all_there_is_when_more_is_asked_for(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2"))

    assert await context(chat, 100) == ["m1", "m2"]


async def test_a_context_of_none_is_empty(chat: MessageStore) -> None:
    await chat.store_message(message())

    assert await context(chat, 0) == []


async def test_the_context_of_an_unknown_conversation_is_empty(chat: MessageStore) -> None:
    assert await chat.get_immediate_context("nowhere", 3) == []


@pytest.mark.smoke
async def test_flagged_messages_are_passed_over_and_older_ones_take_their_place(
    chat: MessageStore,
) -> None:
    await chat.store_messages(messages("m1", "m2", "m3", "m4"))

    await chat.flag_message("m3")

    assert await context(chat, 2) == ["m2", "m4"]


async def test_a_message_stored_with_a_flag_is_not_in_the_context(chat: MessageStore) -> None:
    await chat.store_messages([message("m1"), message("m2", is_flagged=True)])

    assert await context(chat, 2) == ["m1"]


async def test_a_message_whose_flag_is_cleared_is_in_the_context_again(chat: MessageStore) -> None:
    await chat.store_messages([message("m1", is_flagged=True), message("m2")])

    await chat.flag_message("m1", False)

    assert await context(chat, 2) == ["m1", "m2"]


async def test_a_context_of_flagged_messages_alone_is_empty(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2", is_flagged=True))

    assert await context(chat, 2) == []


# Flags


@pytest.mark.smoke
async def test_flagging_changes_the_flag_and_nothing_else(chat: MessageStore) -> None:
    stored = full_message(is_flagged=False)
    await chat.store_message(stored)

    assert await chat.flag_message("m1") is True

    found = await chat.get_message_by_id("m1")
    assert found == stored.model_copy(update={"is_flagged": True})


async def test_clearing_a_flag_changes_nothing_else(chat: MessageStore) -> None:
    stored = full_message(is_flagged=True)
    await chat.store_message(stored)

    assert await chat.flag_message("m1", flagged=False) is True

    found = await chat.get_message_by_id("m1")
    assert found == stored.model_copy(update={"is_flagged": False})


async def test_flagging_again_finds_the_message_and_changes_nothing(chat: MessageStore) -> None:
    await chat.store_message(message())

    assert await chat.flag_message("m1") is True
    assert await chat.flag_message("m1") is True

    assert await chat.get_message_by_id("m1") == message(is_flagged=True)


async def test_flagging_does_not_move_a_message_among_its_equals(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))

    await chat.flag_message("m1")
    await chat.flag_message("m1", False)

    assert ids(await chat.get_messages_by_conversation_id("c1")) == ["m1", "m2", "m3"]


async def test_flagging_keeps_the_trace(chat: MessageStore) -> None:
    await chat.store_turn(messages=[message()], trace=trace())

    await chat.flag_message("m1")

    assert await chat.get_turn_trace_by_message_id("m1") == trace()


@pytest.mark.parametrize("flagged", [True, False])
async def test_flagging_a_missing_message_returns_false(chat: MessageStore, flagged: bool) -> None:
    assert await chat.flag_message("lost", flagged) is False
    assert await chat.get_message_by_id("lost") is None


async def test_storing_a_flagged_message_again_stores_its_flag_as_it_is_given(
    chat: MessageStore,
) -> None:
    await chat.store_message(message())
    await chat.flag_message("m1")

    await chat.store_message(message())

    assert await context(chat, 1) == ["m1"]
