"""Iteration yields each message once, even if messages are added, changed or deleted."""

from __future__ import annotations

import pytest

from jazzmine.sync.message_store import MessageStore
from tests.behaviour.backends import Config
from tests.behaviour.samples import NOW, conversation, ids, message, messages
from tests.behaviour.support.sync_support import take


@pytest.mark.smoke
@pytest.mark.parametrize("batch_size", [1, 2, 3, 4, 500])
def test_iteration_yields_the_listing(chat: MessageStore, batch_size: int) -> None:
    chat.store_messages(messages("m2", "m3", "m4"))
    chat.store_message(message("m1", timestamp=NOW - 1))

    found = [m.id for m in chat.iter_messages("c1", batch_size=batch_size)]

    assert found == ["m1", "m2", "m3", "m4"]


def test_iteration_yields_complete_messages(chat: MessageStore) -> None:
    chat.store_message(message(metadata={"a": [1]}))

    found = [m for m in chat.iter_messages("c1")]

    assert found == [message(metadata={"a": [1]})]


def test_iteration_yields_messages_of_its_conversation_alone(chat: MessageStore) -> None:
    chat.store_conversation(conversation("c2"))
    chat.store_messages([message("m1"), message("m2", conversation_id="c2")])

    assert [m.id for m in chat.iter_messages("c1")] == ["m1"]
    assert [m.id for m in chat.iter_messages("c2")] == ["m2"]
    assert [m.id for m in chat.iter_messages("nowhere")] == []


def test_iteration_reaches_messages_that_are_added_meanwhile(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2"))
    iterator = chat.iter_messages("c1", batch_size=1)
    first = take(iterator, 1)

    chat.store_message(message("earlier", timestamp=NOW - 1))
    chat.store_message(message("later", timestamp=NOW + 1))

    rest = [m for m in iterator]
    assert ids(first + rest) == ["m1", "m2", "later"]


def test_iteration_continues_after_a_message_that_is_deleted_meanwhile(
    chat: MessageStore,
) -> None:
    chat.store_messages(messages("m1", "m2", "m3", "m4"))
    iterator = chat.iter_messages("c1", batch_size=2)
    first = take(iterator, 2)

    chat.delete_message("m2")

    rest = [m for m in iterator]
    assert ids(first + rest) == ["m1", "m2", "m3", "m4"]


def test_iteration_continues_when_all_that_it_yielded_is_deleted(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))
    iterator = chat.iter_messages("c1", batch_size=1)
    first = take(iterator, 2)

    chat.delete_message("m1")
    chat.delete_message("m2")

    rest = [m for m in iterator]
    assert ids(first + rest) == ["m1", "m2", "m3"]


def test_iteration_ends_when_the_conversation_is_deleted_meanwhile(
    chat: MessageStore,
) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))
    iterator = chat.iter_messages("c1", batch_size=1)
    take(iterator, 1)

    chat.delete_conversation("c1")

    rest = [m for m in iterator]
    assert len(rest) <= 1


def test_iteration_yields_each_message_once_while_another_store_adds_one(
    store: MessageStore, config: Config
) -> None:
    # Conversations and messages alternate, so that their order differs from that of a listing.
    store.store_turn(conversation=conversation("c1"), messages=messages("m1"))
    store.store_turn(conversation=conversation("c2"), messages=messages("m2"))
    iterator = store.iter_messages("c1", batch_size=1)
    first = take(iterator, 1)

    with MessageStore.initialize(config) as other:
        other.store_turn(conversation=conversation("c3"), messages=messages("m3"))

    rest = [m for m in iterator]
    assert ids(first + rest) == ["m1", "m2", "m3"]


def test_iteration_yields_each_message_once_while_another_store_changes_one(
    chat: MessageStore, config: Config
) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))
    iterator = chat.iter_messages("c1", batch_size=1)
    first = take(iterator, 2)

    with MessageStore.initialize(config) as other:
        other.store_message(message("m1", original_content="other words"))

    rest = [m for m in iterator]
    assert ids(first + rest) == ["m1", "m2", "m3"]


@pytest.mark.smoke
@pytest.mark.parametrize("deleted", ["m1", "m2"])
def test_iteration_yields_each_message_once_while_another_store_deletes_one(
    chat: MessageStore, config: Config, deleted: str
) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))
    iterator = chat.iter_messages("c1", batch_size=1)
    first = take(iterator, 2)

    with MessageStore.initialize(config) as other:
        other.delete_message(deleted)

    rest = [m for m in iterator]
    assert ids(first + rest) == ["m1", "m2", "m3"]


def test_two_iterations_of_one_conversation_do_not_disturb_each_other(
    chat: MessageStore,
) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))
    one = chat.iter_messages("c1", batch_size=1)
    other = chat.iter_messages("c1", batch_size=2)

    begun = [*take(one, 2), *take(other, 1)]
    rest = [[m.id for m in other], [m.id for m in one]]

    assert ids(begun) == ["m1", "m2", "m1"]
    assert rest == [["m2", "m3"], ["m3"]]


@pytest.mark.smoke
def test_a_store_is_usable_while_and_after_an_iteration_is_left(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))
    iterator = chat.iter_messages("c1", batch_size=1)
    take(iterator, 1)

    chat.store_message(message("m4"))
    del iterator

    assert ids(chat.get_messages_by_conversation_id("c1")) == ["m1", "m2", "m3", "m4"]
