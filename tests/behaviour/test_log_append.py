"""Messages are appended after all others, all of them or none, however often the call is sent."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine import ANY, ConflictError, IntegrityError, MessageRole
from jazzmine.core.message_store import Message, MessageStore
from tests.behaviour.samples import NOW, conversation, full_message, ids, message, messages, trace


async def stored_ids(store: MessageStore, conversation_id: str = "c1") -> list[str]:
    return ids(await store.get_messages_by_conversation_id(conversation_id))


async def last_updated_at(store: MessageStore) -> int:
    found = await store.get_conversation_by_id("c1")
    assert found is not None
    return found.last_updated_at


@pytest.mark.smoke
async def test_appended_messages_are_stored_and_returned(chat: MessageStore) -> None:
    given = [message("m1", timestamp=NOW + 1), full_message(id="m2", conversation_id="c1")]
    given[1].timestamp = NOW + 2

    appended = await chat.append_messages("c1", given)

    assert appended == given
    assert await chat.get_messages_by_conversation_id("c1") == given


async def test_a_tool_is_the_author_of_a_message(chat: MessageStore) -> None:
    answer = message("m1", role=MessageRole.TOOL)

    assert await chat.append_messages("c1", [answer]) == [answer]
    assert await chat.get_message_by_id("m1") == answer


async def test_what_is_returned_belongs_to_the_caller(chat: MessageStore) -> None:
    given = message("m1", metadata={"a": [1]})

    [appended] = await chat.append_messages("c1", [given])
    appended.metadata["a"].append(2)
    given.metadata["a"].append(3)

    assert await chat.get_message_by_id("m1") == message("m1", metadata={"a": [1]})


@pytest.mark.smoke
async def test_messages_come_after_all_others_whatever_their_clock_says(chat: MessageStore) -> None:
    await chat.store_message(message("m1", timestamp=NOW + 5))

    [appended] = await chat.append_messages("c1", [message("m2", timestamp=NOW)])

    assert appended == message("m2", timestamp=NOW + 5)
    assert await chat.get_messages_by_conversation_id("c1") == [
        message("m1", timestamp=NOW + 5),
        message("m2", timestamp=NOW + 5),
    ]


async def test_messages_of_one_call_stay_in_the_order_given(chat: MessageStore) -> None:
    times = {"d": 3, "a": 1, "c": 5, "b": 5}
    given = [message(name, timestamp=NOW + time) for name, time in times.items()]

    appended = await chat.append_messages("c1", given)

    assert [one.timestamp - NOW for one in appended] == [3, 3, 5, 5]
    assert await chat.get_messages_by_conversation_id("c1") == appended
    assert ids(appended) == ["d", "a", "c", "b"]


async def test_a_flagged_message_counts_as_the_newest(chat: MessageStore) -> None:
    await chat.store_messages([message("m1"), message("m2", timestamp=NOW + 9, is_flagged=True)])

    with pytest.raises(ConflictError):
        await chat.append_messages("c1", [message("m3")], expected_last="m1")
    [appended] = await chat.append_messages("c1", [message("m3")], expected_last="m2")

    assert appended.timestamp == NOW + 9


async def test_the_newest_of_equal_timestamps_is_the_one_stored_last(chat: MessageStore) -> None:
    await chat.store_messages(messages("b", "a"))
    await chat.update_message(message("b", original_content="changed"))

    await chat.append_messages("c1", [message("c")], expected_last="a")

    assert await stored_ids(chat) == ["b", "a", "c"]


async def test_last_updated_at_is_raised_to_the_newest_appended_timestamp(
    chat: MessageStore,
) -> None:
    await chat.append_messages("c1", [message("m1", timestamp=NOW + 7)])
    assert await last_updated_at(chat) == NOW + 7

    await chat.append_messages("c1", [message("m2", timestamp=NOW)])
    assert await last_updated_at(chat) == NOW + 7


async def test_last_updated_at_is_never_lowered(chat: MessageStore) -> None:
    await chat.append_messages("c1", [message("m1", timestamp=NOW - 7)])

    assert await last_updated_at(chat) == NOW


async def test_storing_a_message_leaves_last_updated_at_alone(chat: MessageStore) -> None:
    await chat.store_message(message("m1", timestamp=NOW + 7))

    assert await last_updated_at(chat) == NOW


async def test_the_other_fields_of_the_conversation_stay(store: MessageStore) -> None:
    before = conversation(title="Before", metadata={"a": {"$b": 1}})
    await store.store_conversation(before)

    await store.append_messages("c1", [message("m1", timestamp=NOW + 7)])

    after = before.model_copy(update={"last_updated_at": NOW + 7})
    assert await store.get_conversation_by_id("c1") == after


@pytest.mark.parametrize("expected", [ANY, None, "m1", "nowhere"])
async def test_appending_nothing_does_nothing(chat: MessageStore, expected: Any) -> None:
    assert await chat.append_messages("c1", [], expected_last=expected) == []
    assert await chat.append_messages("nowhere", [], expected_last=expected) == []


# The newest message that the caller has read


async def test_an_append_to_what_was_read_succeeds(chat: MessageStore) -> None:
    await chat.append_messages("c1", [message("m1")], expected_last=None)
    await chat.append_messages("c1", messages("m2", "m3"), expected_last="m1")
    await chat.append_messages("c1", [message("m4")], expected_last="m3")

    assert await stored_ids(chat) == ["m1", "m2", "m3", "m4"]


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


async def test_an_empty_conversation_has_no_newest_message(chat: MessageStore) -> None:
    with pytest.raises(ConflictError) as caught:
        await chat.append_messages("c1", [message("m2")], expected_last="m1")

    assert caught.value.newest_id is None
    assert await stored_ids(chat) == []


async def test_after_a_deletion_an_older_message_is_the_newest(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2"))
    await chat.delete_message("m2")

    await chat.append_messages("c1", [message("m3")], expected_last="m1")

    assert await stored_ids(chat) == ["m1", "m3"]


# Repetitions


@pytest.mark.each_value
@pytest.mark.smoke
@pytest.mark.parametrize("expected", [ANY, None, "m2", "nowhere"])
async def test_a_repeated_append_changes_nothing(chat: MessageStore, expected: Any) -> None:
    given = [message("m1", timestamp=NOW + 1), message("m2", timestamp=NOW)]
    first = await chat.append_messages("c1", given, expected_last=None)
    await chat.append_messages("c1", [message("m3", timestamp=NOW + 9)])

    again = await chat.append_messages("c1", given, expected_last=expected)

    assert again == first
    assert await stored_ids(chat) == ["m1", "m2", "m3"]
    assert await last_updated_at(chat) == NOW + 9


async def test_a_repetition_returns_the_messages_as_they_are_stored(chat: MessageStore) -> None:
    await chat.append_messages("c1", messages("m1", "m2"))
    await chat.flag_message("m1")

    again = await chat.append_messages("c1", messages("m2", "m1", timestamp=NOW - 5))

    assert again == [message("m2"), message("m1", is_flagged=True)]


async def test_the_keys_of_metadata_may_be_in_another_order(chat: MessageStore) -> None:
    await chat.append_messages("c1", [message("m1", metadata={"bb": 1, "a": {"d": 2, "c": [3]}})])

    again = message("m1", metadata={"a": {"c": [3], "d": 2}, "bb": 1})

    assert await chat.append_messages("c1", [again]) == [again]


async def test_a_number_may_be_a_negative_zero(chat: MessageStore) -> None:
    given = message("m1", sentiment_score=-0.0, metadata={"a": -0.0})
    await chat.append_messages("c1", [given])

    assert await chat.append_messages("c1", [given]) == [given]


CHANGES: list[dict[str, Any]] = [
    {"original_content": "other"},
    {"user_id": "u2"},
    {"role": MessageRole.ASSISTANT},
    {"metadata": {"a": 1}},
    {"explicit_context": []},
    {"episode_id": 1},
    {"is_cancellation": True},
    {"entities": [{"name": "Lisbon"}]},
    {"sentiment_score": 0.5},
]


@pytest.mark.each_value
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
async def test_a_stored_id_with_another_content_is_refused(
    chat: MessageStore, change: dict[str, Any]
) -> None:
    await chat.append_messages("c1", [message("m1")])

    with pytest.raises(IntegrityError, match="m1"):
        await chat.append_messages("c1", [message("m1", **change)], expected_last="m1")

    assert await chat.get_messages_by_conversation_id("c1") == [message("m1")]


async def test_an_id_of_another_conversation_is_refused(chat: MessageStore) -> None:
    await chat.store_conversation(conversation("c2"))
    await chat.store_message(message("m1", conversation_id="c2"))

    with pytest.raises(IntegrityError, match="m1"):
        await chat.append_messages("c1", [message("m1")])

    assert await stored_ids(chat) == []
    assert await stored_ids(chat, "c2") == ["m1"]


@pytest.mark.parametrize("expected", [ANY, "m1", None])
async def test_a_call_of_which_some_ids_are_stored_is_refused(
    chat: MessageStore, expected: Any
) -> None:
    await chat.append_messages("c1", [message("m1")])

    with pytest.raises(IntegrityError, match="m1"):
        await chat.append_messages("c1", messages("m1", "m2"), expected_last=expected)

    assert await stored_ids(chat) == ["m1"]


# Arguments


async def test_an_unknown_conversation_is_refused(store: MessageStore) -> None:
    with pytest.raises(IntegrityError, match="c1"):
        await store.append_messages("c1", [message("m1")])

    assert await store.get_message_by_id("m1") is None


async def test_a_conversation_that_was_deleted_is_refused(chat: MessageStore) -> None:
    await chat.append_messages("c1", [message("m1")])
    await chat.delete_conversation("c1")

    with pytest.raises(IntegrityError, match="c1"):
        await chat.append_messages("c1", [message("m2")], expected_last=None)

    assert await chat.get_message_by_id("m2") is None


async def test_a_message_of_another_conversation_is_refused(chat: MessageStore) -> None:
    await chat.store_conversation(conversation("c2"))

    with pytest.raises(ValueError, match="'m2' is of conversation 'c2', not of 'c1'"):
        await chat.append_messages("c1", [message("m1"), message("m2", conversation_id="c2")])

    assert await stored_ids(chat) == await stored_ids(chat, "c2") == []


async def test_one_id_twice_is_refused(chat: MessageStore) -> None:
    with pytest.raises(ValueError, match="'m1'"):
        await chat.append_messages("c1", messages("m1", "m2", "m1"))

    assert await stored_ids(chat) == []


@pytest.mark.parametrize("wrong", [1, b"m1", {"$ne": None}, True, [None]])
async def test_another_type_of_newest_id_is_refused(chat: MessageStore, wrong: Any) -> None:
    with pytest.raises(TypeError, match="expected_last must be a str"):
        await chat.append_messages("c1", [message("m1")], expected_last=wrong)


@pytest.mark.parametrize("wrong", [trace("m1"), "m1", None])
async def test_something_else_than_a_message_is_refused(chat: MessageStore, wrong: Any) -> None:
    with pytest.raises(TypeError, match="expected a Message"):
        await chat.append_messages("c1", [message("m1"), wrong])


async def test_messages_may_be_given_as_a_generator(chat: MessageStore) -> None:
    def given() -> Any:
        yield from messages("m1", "m2")

    appended: list[Message] = await chat.append_messages("c1", given())

    assert ids(appended) == ["m1", "m2"]


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
