"""A conversation is got, or else created, in one step."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.core.message_store import MessageStore
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config
from tests.behaviour.samples import conversation, ids, message, messages


@pytest.mark.smoke
async def test_a_new_conversation_is_stored_and_returned(store: MessageStore) -> None:
    given = conversation(metadata={"a": {"$b": [1]}})

    created = await store.get_or_create_conversation(given)
    created.metadata["a"]["$b"].append(2)

    assert await store.get_conversation_by_id("c1") == given


async def test_the_stored_conversation_is_returned_and_stays(chat: MessageStore) -> None:
    await chat.store_message(message())

    other = conversation(user_id="u2", title="Another", last_updated_at=1)
    found = await chat.get_or_create_conversation(other)

    assert found == conversation()
    assert await chat.get_conversation_by_id("c1") == conversation()
    assert ids(await chat.get_messages_by_conversation_id("c1")) == ["m1"]


async def test_a_conversation_that_was_found_does_not_move(store: MessageStore) -> None:
    for name in ("c1", "c2"):
        await store.store_conversation(conversation(name))

    await store.get_or_create_conversation(conversation("c1"))

    assert ids(await store.get_conversations_by_user_id("u1")) == ["c2", "c1"]


async def test_a_created_conversation_takes_messages(store: MessageStore) -> None:
    await store.get_or_create_conversation(conversation())

    await store.store_message(message("m1"))
    await store.append_messages("c1", [message("m2")])

    assert ids(await store.get_messages_by_conversation_id("c1")) == ["m1", "m2"]


async def test_of_several_at_once_one_is_stored_and_all_return_it(
    api: Api, config: Config, store: MessageStore
) -> None:
    titles = [f"title {number}" for number in range(6)]
    async with await api.MessageStore.initialize(config) as other:
        found = await api.gather(
            *(
                lambda one=one, title=title: one.get_or_create_conversation(
                    conversation(title=title)
                )
                for title in titles
                for one in (store, other)
            )
        )

    stored = await store.get_conversation_by_id("c1")
    assert stored is not None
    assert stored.title in titles
    assert found == [stored] * 12


async def test_a_deleted_conversation_is_created_anew(chat: MessageStore) -> None:
    await chat.append_messages("c1", messages("m1"))
    await chat.delete_conversation("c1")

    other = conversation(title="Another")

    assert await chat.get_or_create_conversation(other) == other
    assert await chat.get_messages_by_conversation_id("c1") == []


@pytest.mark.parametrize("wrong", [None, "c1", {"id": "c1"}, message()])
async def test_something_else_than_a_conversation_is_refused(
    store: MessageStore, wrong: Any
) -> None:
    with pytest.raises(TypeError, match="expected a Conversation"):
        await store.get_or_create_conversation(wrong)


async def test_an_invalid_conversation_is_refused(chat: MessageStore) -> None:
    wrong = conversation().model_copy(update={"title": "\ud800"})

    with pytest.raises(ValidationError, match="title"):
        await chat.get_or_create_conversation(wrong)
