"""Messages are appended after all others, all of them or none, however often the call is sent."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine import ConflictError, IntegrityError
from jazzmine.core.message_store import MessageStore
from tests.behaviour.samples import NOW, conversation, ids, message, messages


async def stored_ids(store: MessageStore, conversation_id: str = "c1") -> list[str]:
    return ids(await store.get_messages_by_conversation_id(conversation_id))


async def last_updated_at(store: MessageStore) -> int:
    found = await store.get_conversation_by_id("c1")
    assert found is not None
    return found.last_updated_at


async def test_messages_that_are_stored_in_part_behind_others_conflict(chat: MessageStore) -> None:
    for each in (message("m1"), message("m2"), message("of another request")):
        await chat.append_messages("c1", [each])

    with pytest.raises(ConflictError):
        await chat.append_messages("c1", [message("m2"), message("m3")], expected_last="m1")

    assert await stored_ids(chat) == ["m1", "m2", "of another request"]


@pytest.mark.smoke
async def test_a_turn_that_is_delivered_twice_and_answered_differently_conflicts(
    chat: MessageStore,
) -> None:
    question, answer = message("m1"), message("m2", original_content="Green tea.")
    await chat.append_messages("c1", [question, answer], expected_last=None)
    other = message("m2", original_content="Black tea.")

    with pytest.raises(ConflictError) as caught:
        await chat.append_messages("c1", [question, other], expected_last=None)
    assert caught.value.newest_id == "m2"

    with pytest.raises(IntegrityError, match="another content"):
        await chat.append_messages("c1", [question, other])
    await chat.store_conversation(conversation("c2"))
    taken = message("m2", conversation_id="c2")
    with pytest.raises(IntegrityError, match="another content"):
        await chat.append_messages("c2", [taken], expected_last="m1")
    assert await chat.get_messages_by_conversation_id("c1") == [question, answer]


# The newest message that the caller has read


@pytest.mark.each_value
@pytest.mark.smoke
@pytest.mark.parametrize("expected", [None, "m1", "nowhere", "elsewhere"])
async def test_an_append_to_what_is_not_the_newest_is_refused(
    chat: MessageStore, expected: str | None
) -> None:
    await chat.store_conversation(conversation("c2"))
    await chat.store_messages([*messages("m1", "m2"), message("elsewhere", conversation_id="c2")])

    with pytest.raises(ConflictError) as caught:
        await chat.append_messages("c1", [message("m3", timestamp=NOW + 9)], expected_last=expected)

    assert caught.value.newest_id == "m2"
    assert await stored_ids(chat) == ["m1", "m2"]
    assert await last_updated_at(chat) == NOW


# Repetitions


async def test_the_keys_of_metadata_may_be_in_another_order(chat: MessageStore) -> None:
    await chat.append_messages("c1", [message("m1", metadata={"bb": 1, "a": {"d": 2, "c": [3]}})])

    again = message("m1", metadata={"a": {"c": [3], "d": 2}, "bb": 1})

    assert await chat.append_messages("c1", [again]) == [again]


async def test_a_number_may_be_a_negative_zero(chat: MessageStore) -> None:
    given = message("m1", sentiment_score=-0.0, metadata={"a": -0.0})
    await chat.append_messages("c1", [given])

    assert await chat.append_messages("c1", [given]) == [given]


# Arguments


async def test_one_id_twice_is_refused(chat: MessageStore) -> None:
    with pytest.raises(ValueError, match="'m1'"):
        await chat.append_messages("c1", messages("m1", "m2", "m1"))

    assert await stored_ids(chat) == []


@pytest.mark.parametrize("wrong", [1, b"m1", {"$ne": None}, True, [None]])
async def test_another_type_of_newest_id_is_refused(chat: MessageStore, wrong: Any) -> None:
    with pytest.raises(TypeError, match="expected_last must be a str"):
        await chat.append_messages("c1", [message("m1")], expected_last=wrong)


@pytest.mark.smoke
@pytest.mark.parametrize("count", [1, 40])
async def test_an_appended_message_has_every_character_and_number(
    chat: MessageStore, count: int
) -> None:
    text = "\0 \\u0000 é \U0001f600 {} $ 'quoted' \\"
    given = [
        message(f"{text}{i}", original_content=text, metadata={"ä $.x": [2**63 - 1, 1e300, text]})
        for i in range(count)
    ]

    appended = await chat.append_messages("c1", given, expected_last=None)

    assert appended == given
    assert await chat.append_messages("c1", given) == given
    assert await chat.get_messages_by_conversation_id("c1") == given
