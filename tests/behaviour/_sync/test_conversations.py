"""Conversations are stored, listed by their owners, and deleted with their messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine import NotFoundError
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import NOW, conversation, ids, message, trace

each_write = pytest.mark.parametrize("write", ["store_conversation", "update_conversation"])


def listed(store: MessageStore, number: int = 1, **page: Any) -> list[str]:
    """Return the ids of the conversations of user "u1", which are those of agent "a1"."""
    found = ids(store.get_conversations_by_user_id(f"u{number}", **page))
    assert ids(store.get_conversations_by_agent_id(f"a{number}", **page)) == found
    return found


@each_write
def test_a_stored_conversation_is_read_back(store: MessageStore, write: str) -> None:
    stored = conversation(metadata={"channel": "web", "tags": ["a", 1, None]})

    getattr(store, write)(stored)

    assert store.get_conversation_by_id("c1") == stored


def test_a_conversation_that_is_not_stored_is_none(store: MessageStore) -> None:
    assert store.get_conversation_by_id("c1") is None


@pytest.mark.smoke
@each_write
def test_storing_a_conversation_again_replaces_all_of_it(
    store: MessageStore, write: str
) -> None:
    store.store_conversation(conversation(metadata={"old": True}))
    newer = conversation(title="Another title", created_at=1, last_updated_at=2)

    getattr(store, write)(newer)

    assert store.get_conversation_by_id("c1") == newer
    assert store.get_conversations_by_user_id("u1") == [newer]


@each_write
def test_storing_a_conversation_again_keeps_its_messages_and_traces(
    chat: MessageStore, write: str
) -> None:
    chat.store_turn(messages=[message()], trace=trace())

    getattr(chat, write)(conversation(title="Another title"))

    assert chat.get_messages_by_conversation_id("c1") == [message()]
    assert chat.get_turn_traces_by_conversation_id("c1") == [trace()]


def test_conversations_are_listed_newest_first(store: MessageStore) -> None:
    store.store_conversation(conversation("middle", last_updated_at=NOW + 1))
    store.store_conversation(conversation("oldest", last_updated_at=-5))
    store.store_conversation(conversation("newest", last_updated_at=NOW + 2))

    assert listed(store) == ["newest", "middle", "oldest"]


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("steps", "order"),
    [
        ([lambda store: store.store_conversation(conversation("d"))], "d a c b"),
        ([lambda store: store.store_conversation(conversation("b", title="Other"))], "a c b"),
        (
            [lambda store: store.update_conversation(conversation("b", last_updated_at=NOW + 1))],
            "b a c",
        ),
        (
            [
                lambda store: store.delete_conversation("b"),
                lambda store: store.store_conversation(conversation("b")),
            ],
            "b a c",
        ),
    ],
    ids=["another", "stored again", "updated later", "deleted and stored again"],
)
def test_equally_new_conversations_are_listed_latest_stored_first(
    store: MessageStore, steps: list[Callable[[Any], Any]], order: str
) -> None:
    for name in ("b", "c", "a"):
        store.store_conversation(conversation(name))

    for step in steps:
        step(store)

    assert listed(store) == order.split()


def test_a_listing_holds_the_conversations_of_its_owner_alone(store: MessageStore) -> None:
    store.store_conversation(conversation("mine"))
    store.store_conversation(conversation("other", user_id="u2", agent_id="a2"))

    assert listed(store) == ["mine"]
    assert listed(store, 2) == ["other"]
    assert listed(store, 3) == []


def test_a_conversation_with_another_user_changes_listings(store: MessageStore) -> None:
    store.store_conversation(conversation("c1"))

    store.store_conversation(conversation("c1", user_id="u2", agent_id="a2"))

    assert listed(store) == []
    assert listed(store, 2) == ["c1"]


@pytest.mark.smoke
def test_pages_of_conversations_add_up_to_the_listing(store: MessageStore) -> None:
    store.store_conversation(conversation("a"))
    store.store_conversation(conversation("b", last_updated_at=NOW - 1))
    store.store_conversation(conversation("c"))
    store.store_conversation(conversation("d"))

    assert listed(store, limit=0) == []
    assert listed(store, limit=2) == ["d", "c"]
    assert listed(store, limit=2, after="c") == ["a", "b"]
    assert listed(store, limit=2, after="b") == []
    assert listed(store, after="d") == ["c", "a", "b"]


def test_the_next_page_of_conversations_is_right_after_changes(store: MessageStore) -> None:
    store.store_conversation(conversation("a"))
    store.store_conversation(conversation("b"))
    store.store_conversation(conversation("c"))
    assert listed(store, limit=1) == ["c"]

    store.store_conversation(conversation("newer", last_updated_at=NOW + 1))
    store.store_conversation(conversation("older", last_updated_at=NOW - 1))
    store.delete_conversation("a")

    assert listed(store, after="c") == ["b", "older"]


@pytest.mark.parametrize("after", ["gone", "other"])
def test_a_page_after_a_conversation_that_is_not_in_the_listing_is_refused(
    store: MessageStore, after: str
) -> None:
    for name in ("c1", "gone"):
        store.store_conversation(conversation(name))
    store.store_conversation(conversation("other", user_id="u2", agent_id="a2"))
    store.delete_conversation("gone")

    with pytest.raises(NotFoundError, match=after):
        store.get_conversations_by_user_id("u1", after=after)
    with pytest.raises(NotFoundError, match=after):
        store.get_conversations_by_agent_id("a1", after=after)


def test_deleting_a_conversation_returns_whether_it_was_stored(chat: MessageStore) -> None:
    assert chat.delete_conversation("c1") is True
    assert chat.delete_conversation("c1") is False
    assert chat.get_conversation_by_id("c1") is None
    assert chat.get_conversations_by_user_id("u1") == []


@pytest.mark.smoke
def test_deleting_a_conversation_deletes_its_messages_and_their_traces(
    chat: MessageStore,
) -> None:
    chat.store_messages([message("m1"), message("m2")])
    chat.store_turn_trace(trace("m1"))

    chat.delete_conversation("c1")

    assert chat.get_messages_by_ids(["m1", "m2"]) == []
    assert chat.get_messages_by_conversation_id("c1") == []
    assert chat.get_messages_by_user_id("u1") == []
    assert chat.get_turn_trace_by_id("trace-of-m1") is None
    assert chat.get_turn_trace_by_message_id("m1") is None
    assert chat.get_turn_traces_by_conversation_id("c1") == []
    assert chat.get_turn_traces_by_agent_id("a1") == []


def test_deleting_a_conversation_leaves_the_others_alone(chat: MessageStore) -> None:
    chat.store_message(message("m1"))
    chat.store_conversation(conversation("c2"))
    chat.store_message(message("m2", conversation_id="c2"))
    chat.store_turn_trace(trace("m2", conversation_id="c2"))

    chat.delete_conversation("c1")

    assert chat.get_conversations_by_user_id("u1") == [conversation("c2")]
    assert ids(chat.get_messages_by_user_id("u1")) == ["m2"]
    assert ids(chat.get_turn_traces_by_agent_id("a1")) == ["trace-of-m2"]


def test_a_conversation_deleted_and_stored_again_is_empty(chat: MessageStore) -> None:
    chat.store_turn(messages=[message()], trace=trace())

    chat.delete_conversation("c1")
    chat.store_conversation(conversation())

    assert chat.get_messages_by_conversation_id("c1") == []
    assert chat.get_turn_traces_by_conversation_id("c1") == []
