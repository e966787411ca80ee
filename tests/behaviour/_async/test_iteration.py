"""Iteration yields each message once, even if messages are added, changed or deleted."""

from __future__ import annotations

import pytest

from jazzmine.core.message_store import MessageStore
from tests.behaviour.backends import Config
from tests.behaviour.samples import NOW, conversation, ids, message, messages
from tests.behaviour.support.async_support import take


@pytest.mark.smoke
@pytest.mark.parametrize("batch_size", [1, 2, 3, 4, 500])
async def test_iteration_yields_the_listing(chat: MessageStore, batch_size: int) -> None:
    await chat.store_messages(messages("m2", "m3", "m4"))
    await chat.store_message(message("m1", timestamp=NOW - 1))

    found = [m.id async for m in chat.iter_messages("c1", batch_size=batch_size)]

    assert found == ["m1", "m2", "m3", "m4"]


async def test_iteration_yields_complete_messages(chat: MessageStore) -> None:
    await chat.store_message(message(metadata={"a": [1]}))

    found = [m async for m in chat.iter_messages("c1")]

    assert found == [message(metadata={"a": [1]})]


async def test_iteration_yields_messages_of_its_conversation_alone(chat: MessageStore) -> None:
    await chat.store_conversation(conversation("c2"))
    await chat.store_messages([message("m1"), message("m2", conversation_id="c2")])

    assert [m.id async for m in chat.iter_messages("c1")] == ["m1"]
    assert [m.id async for m in chat.iter_messages("c2")] == ["m2"]
    assert [m.id async for m in chat.iter_messages("nowhere")] == []


async def test_iteration_reaches_messages_that_are_added_meanwhile(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2"))
    iterator = chat.iter_messages("c1", batch_size=1)
    first = await take(iterator, 1)

    await chat.store_message(message("earlier", timestamp=NOW - 1))
    await chat.store_message(message("later", timestamp=NOW + 1))

    rest = [m async for m in iterator]
    assert ids(first + rest) == ["m1", "m2", "later"]


async def test_iteration_continues_after_a_message_that_is_deleted_meanwhile(
    chat: MessageStore,
) -> None:
    await chat.store_messages(messages("m1", "m2", "m3", "m4"))
    iterator = chat.iter_messages("c1", batch_size=2)
    first = await take(iterator, 2)

    await chat.delete_message("m2")

    rest = [m async for m in iterator]
    assert ids(first + rest) == ["m1", "m2", "m3", "m4"]


async def test_iteration_continues_when_all_that_it_yielded_is_deleted(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))
    iterator = chat.iter_messages("c1", batch_size=1)
    first = await take(iterator, 2)

    await chat.delete_message("m1")
    await chat.delete_message("m2")

    rest = [m async for m in iterator]
    assert ids(first + rest) == ["m1", "m2", "m3"]


async def test_iteration_ends_when_the_conversation_is_deleted_meanwhile(
    chat: MessageStore,
) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))
    iterator = chat.iter_messages("c1", batch_size=1)
    await take(iterator, 1)

    await chat.delete_conversation("c1")

    rest = [m async for m in iterator]
    assert len(rest) <= 1


async def test_iteration_yields_each_message_once_while_another_store_adds_one(
    store: MessageStore, config: Config
) -> None:
    # Conversations and messages alternate, so that their order differs from that of a listing.
    await store.store_turn(conversation=conversation("c1"), messages=messages("m1"))
    await store.store_turn(conversation=conversation("c2"), messages=messages("m2"))
    iterator = store.iter_messages("c1", batch_size=1)
    first = await take(iterator, 1)

    async with await MessageStore.initialize(config) as other:
        await other.store_turn(conversation=conversation("c3"), messages=messages("m3"))

    rest = [m async for m in iterator]
    assert ids(first + rest) == ["m1", "m2", "m3"]


async def test_iteration_yields_each_message_once_while_another_store_changes_one(
    chat: MessageStore, config: Config
) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))
    iterator = chat.iter_messages("c1", batch_size=1)
    first = await take(iterator, 2)

    async with await MessageStore.initialize(config) as other:
        await other.store_message(message("m1", original_content="other words"))

    rest = [m async for m in iterator]
    assert ids(first + rest) == ["m1", "m2", "m3"]


@pytest.mark.smoke
@pytest.mark.parametrize("deleted", ["m1", "m2"])
async def test_iteration_yields_each_message_once_while_another_store_deletes_one(
    chat: MessageStore, config: Config, deleted: str
) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))
    iterator = chat.iter_messages("c1", batch_size=1)
    first = await take(iterator, 2)

    async with await MessageStore.initialize(config) as other:
        await other.delete_message(deleted)

    rest = [m async for m in iterator]
    assert ids(first + rest) == ["m1", "m2", "m3"]


async def test_two_iterations_of_one_conversation_do_not_disturb_each_other(
    chat: MessageStore,
) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))
    one = chat.iter_messages("c1", batch_size=1)
    other = chat.iter_messages("c1", batch_size=2)

    begun = [*await take(one, 2), *await take(other, 1)]
    rest = [[m.id async for m in other], [m.id async for m in one]]

    assert ids(begun) == ["m1", "m2", "m1"]
    assert rest == [["m2", "m3"], ["m3"]]


@pytest.mark.smoke
async def test_a_store_is_usable_while_and_after_an_iteration_is_left(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))
    iterator = chat.iter_messages("c1", batch_size=1)
    await take(iterator, 1)

    await chat.store_message(message("m4"))
    del iterator

    assert ids(await chat.get_messages_by_conversation_id("c1")) == ["m1", "m2", "m3", "m4"]
