"""A record that refers to one that is not stored is refused, and nothing is written."""

from __future__ import annotations

import pytest

from jazzmine import IntegrityError
from jazzmine.core.message_store import MessageStore
from tests.behaviour.apis import Api
from tests.behaviour.samples import conversation, message, trace


@pytest.mark.smoke
async def test_of_simultaneous_messages_with_one_id_each_needs_its_conversation(
    api: Api,
    chat: MessageStore,
) -> None:
    owners = ["nowhere", "c1"] * 20
    given = [message("m1", conversation_id=owner) for owner in owners]

    outcomes = await api.settle(*(lambda m=m: chat.store_message(m) for m in given))

    refused = [isinstance(outcome, IntegrityError) for outcome in outcomes]
    assert refused == [owner == "nowhere" for owner in owners]
    assert await chat.get_messages_by_user_id("u1") == [message("m1")]


@pytest.mark.smoke
async def test_an_error_names_what_is_missing(chat: MessageStore) -> None:
    for write in (chat.store_message, chat.update_message):
        with pytest.raises(IntegrityError, match="nowhere"):
            await write(message(conversation_id="nowhere"))
    with pytest.raises(IntegrityError, match="lost"):
        await chat.store_turn(messages=[message()], trace=trace("lost"))
    assert await chat.get_messages_by_user_id("u1") == []


@pytest.mark.smoke
async def test_an_error_tells_whose_a_taken_id_is(chat: MessageStore) -> None:
    await chat.store_conversation(conversation("c2"))
    await chat.store_turn(messages=[message("m1"), message("m2")], trace=trace("m1"))

    with pytest.raises(IntegrityError, match="'m1' is stored in another conversation"):
        await chat.store_message(message("m1", conversation_id="c2"))
    taken = trace("m1").model_copy(update={"message_id": "m2"})
    with pytest.raises(IntegrityError, match=r"trace .* belongs to another message"):
        await chat.store_turn_trace(taken)
