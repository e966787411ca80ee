"""A message is edited by field, which never stores one again that was deleted."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.core.message_store import MessageStore
from tests.behaviour.apis import Api
from tests.behaviour.samples import conversation, full_message, message


@pytest.mark.smoke
async def test_only_the_named_fields_are_changed(chat: MessageStore) -> None:
    stored = full_message()
    await chat.store_message(stored)

    edited = await chat.edit_message("m1", original_content="new", errors=None)

    assert edited == stored.model_copy(update={"original_content": "new", "errors": None})
    assert await chat.get_message_by_id("m1") == edited


@pytest.mark.smoke
async def test_edits_at_once_are_all_made(chat: MessageStore, api: Api) -> None:
    await chat.store_message(message())

    await api.gather(
        *(lambda n=n: chat.edit_message("m1", metadata={f"k{n}": n}) for n in range(10))
    )

    found = await chat.get_message_by_id("m1")
    assert found is not None
    assert found.metadata == {f"k{n}": n for n in range(10)}


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"conversation_id": "c2"}, TypeError),
        ({"user_id": "u2"}, TypeError),
        ({"role": "tool"}, TypeError),
        ({"timestamp": 5}, TypeError),
        ({"is_flagged": False}, TypeError),
        ({"colour": "red"}, TypeError),
        ({"sentiment_score": 2.0}, ValidationError),
        ({"original_content": "\ud800"}, ValidationError),
        ({"metadata": {"a": float("nan")}}, ValidationError),
    ],
    ids=repr,
)
async def test_an_edit_of_another_field_or_to_no_value_of_it_is_refused(
    chat: MessageStore, wrong: dict[str, Any], error: type[Exception]
) -> None:
    await chat.store_message(message())

    with pytest.raises(error):
        await chat.edit_message("m1", **wrong)

    assert await chat.get_message_by_id("m1") == message()


async def test_an_edited_text_is_found_by_its_new_words(searched: MessageStore) -> None:
    await searched.store_conversation(conversation())
    await searched.store_message(message(original_content="green tea"))

    await searched.edit_message("m1", original_content="black coffee")

    assert await searched.search_messages("tea") == []
    assert [f.message.id for f in await searched.search_messages("coffee")] == ["m1"]
