"""Messages are stored, found by id and deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine import IntegrityError
from jazzmine.core.message_store import Message, MessageStore
from tests.behaviour.samples import (
    NOW,
    conversation,
    ids,
    message,
)


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
