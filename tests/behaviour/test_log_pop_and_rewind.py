"""The newest message, or all messages after one, are deleted with their traces."""

from __future__ import annotations

import pytest

from jazzmine import NotFoundError
from jazzmine.core.message_store import MessageStore
from tests.behaviour.samples import (
    conversation,
    ids,
    message,
)


async def stored_ids(store: MessageStore, conversation_id: str = "c1") -> list[str]:
    return ids(await store.get_messages_by_conversation_id(conversation_id))


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
