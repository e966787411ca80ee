"""A conversation is got, or else created, in one step."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.core.message_store import MessageStore
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config
from tests.behaviour.samples import conversation, message


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
