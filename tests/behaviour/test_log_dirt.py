"""A message that cannot be read stands in the way of no other, and is not lost by a pop."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine import ConflictError
from jazzmine.core.message_store import MessageStore
from tests.behaviour.backends import Config
from tests.behaviour.samples import NOW, conversation, ids, message
from tests.behaviour.stored import everything, put


def raw(name: str, **fields: Any) -> dict[str, Any]:
    return {**message(name).model_dump(mode="json"), **fields}


@pytest.fixture
async def dirty(config: Config, store: MessageStore) -> MessageStore:
    """A conversation whose newest message, and the one before the first, cannot be read."""
    if config["storage"] == "json":
        pytest.skip("a file with a record that breaks a rule is refused")
    broken = {"role": "nobody", "user_id": "ann-9f3c"}
    put(
        config,
        [conversation().model_dump(mode="json")],
        [
            raw("m0", timestamp=NOW - 1, **broken),
            raw("m1"),
            raw("m2"),
            raw("m3", timestamp=NOW + 1, **broken),
        ],
    )
    return store


@pytest.mark.smoke
async def test_an_unreadable_message_is_not_popped(dirty: MessageStore) -> None:
    with pytest.raises(ValidationError, match="m3"):
        await dirty.pop_message("c1")

    assert await dirty.delete_message("m3") is True
    assert await dirty.pop_message("c1") == message("m2")


async def test_an_append_comes_after_an_unreadable_message(dirty: MessageStore) -> None:
    with pytest.raises(ConflictError) as caught:
        await dirty.append_messages("c1", [message("m4")], expected_last="m2")
    assert caught.value.newest_id == "m3"

    [appended] = await dirty.append_messages("c1", [message("m4")], expected_last="m3")

    assert appended.timestamp == NOW + 1
    assert ids(await dirty.get_messages_by_conversation_id("c1")) == ["m1", "m2", "m4"]


async def test_an_unreadable_message_of_a_user_is_erased(
    config: Config, dirty: MessageStore
) -> None:
    erasure = await dirty.erase_user("ann-9f3c")

    assert erasure.messages == 2
    assert b"ann-9f3c" not in everything(config)
    assert ids(await dirty.get_messages_by_conversation_id("c1")) == ["m1", "m2"]
