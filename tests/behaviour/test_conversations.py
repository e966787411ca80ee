"""Conversations are stored, listed by their owners, and deleted with their messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine import NotFoundError
from jazzmine.core.message_store import MessageStore
from tests.behaviour.samples import NOW, conversation, ids, message, trace

each_write = pytest.mark.parametrize("write", ["store_conversation", "update_conversation"])


async def listed(store: MessageStore, number: int = 1, **page: Any) -> list[str]:
    """Return the ids of the conversations of user "u1", which are those of agent "a1"."""
    found = ids(await store.get_conversations_by_user_id(f"u{number}", **page))
    assert ids(await store.get_conversations_by_agent_id(f"a{number}", **page)) == found
    return found


@each_write
async def test_a_stored_conversation_is_read_back(store: MessageStore, write: str) -> None:
    stored = conversation(metadata={"channel": "web", "tags": ["a", 1, None]})

    await getattr(store, write)(stored)

    assert await store.get_conversation_by_id("c1") == stored


async def test_a_conversation_that_is_not_stored_is_none(store: MessageStore) -> None:
    assert await store.get_conversation_by_id("c1") is None


@pytest.mark.smoke
@each_write
async def test_storing_a_conversation_again_replaces_all_of_it(
    store: MessageStore, write: str
) -> None:
    await store.store_conversation(conversation(metadata={"old": True}))
    newer = conversation(title="Another title", created_at=1, last_updated_at=2)

    await getattr(store, write)(newer)

    assert await store.get_conversation_by_id("c1") == newer
    assert await store.get_conversations_by_user_id("u1") == [newer]


@each_write
async def test_storing_a_conversation_again_keeps_its_messages_and_traces(
    chat: MessageStore, write: str
) -> None:
    await chat.store_turn(messages=[message()], trace=trace())

    await getattr(chat, write)(conversation(title="Another title"))

    assert await chat.get_messages_by_conversation_id("c1") == [message()]
    assert await chat.get_turn_traces_by_conversation_id("c1") == [trace()]


async def test_conversations_are_listed_newest_first(store: MessageStore) -> None:
    await store.store_conversation(conversation("middle", last_updated_at=NOW + 1))
    await store.store_conversation(conversation("oldest", last_updated_at=-5))
    await store.store_conversation(conversation("newest", last_updated_at=NOW + 2))

    assert await listed(store) == ["newest", "middle", "oldest"]


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
async def test_equally_new_conversations_are_listed_latest_stored_first(
    store: MessageStore, steps: list[Callable[[Any], Any]], order: str
) -> None:
    for name in ("b", "c", "a"):
        await store.store_conversation(conversation(name))

    for step in steps:
        await step(store)

    assert await listed(store) == order.split()


async def test_a_listing_holds_the_conversations_of_its_owner_alone(store: MessageStore) -> None:
    await store.store_conversation(conversation("mine"))
    await store.store_conversation(conversation("other", user_id="u2", agent_id="a2"))

    assert await listed(store) == ["mine"]
    assert await listed(store, 2) == ["other"]
    assert await listed(store, 3) == []


async def test_a_conversation_with_another_user_changes_listings(store: MessageStore) -> None:
    await store.store_conversation(conversation("c1"))

    await store.store_conversation(conversation("c1", user_id="u2", agent_id="a2"))

    assert await listed(store) == []
    assert await listed(store, 2) == ["c1"]


@pytest.mark.smoke
async def test_pages_of_conversations_add_up_to_the_listing(store: MessageStore) -> None:
    await store.store_conversation(conversation("a"))
    await store.store_conversation(conversation("b", last_updated_at=NOW - 1))
    await store.store_conversation(conversation("c"))
    await store.store_conversation(conversation("d"))

    assert await listed(store, limit=0) == []
    assert await listed(store, limit=2) == ["d", "c"]
    assert await listed(store, limit=2, after="c") == ["a", "b"]
    assert await listed(store, limit=2, after="b") == []
    assert await listed(store, after="d") == ["c", "a", "b"]


async def test_the_next_page_of_conversations_is_right_after_changes(store: MessageStore) -> None:
    await store.store_conversation(conversation("a"))
    await store.store_conversation(conversation("b"))
    await store.store_conversation(conversation("c"))
    assert await listed(store, limit=1) == ["c"]

    await store.store_conversation(conversation("newer", last_updated_at=NOW + 1))
    await store.store_conversation(conversation("older", last_updated_at=NOW - 1))
    await store.delete_conversation("a")

    assert await listed(store, after="c") == ["b", "older"]


@pytest.mark.parametrize("after", ["gone", "other"])
async def test_a_page_after_a_conversation_that_is_not_in_the_listing_is_refused(
    store: MessageStore, after: str
) -> None:
    for name in ("c1", "gone"):
        await store.store_conversation(conversation(name))
    await store.store_conversation(conversation("other", user_id="u2", agent_id="a2"))
    await store.delete_conversation("gone")

    with pytest.raises(NotFoundError, match=after):
        await store.get_conversations_by_user_id("u1", after=after)
    with pytest.raises(NotFoundError, match=after):
        await store.get_conversations_by_agent_id("a1", after=after)


async def test_deleting_a_conversation_returns_whether_it_was_stored(chat: MessageStore) -> None:
    assert await chat.delete_conversation("c1") is True
    assert await chat.delete_conversation("c1") is False
    assert await chat.get_conversation_by_id("c1") is None
    assert await chat.get_conversations_by_user_id("u1") == []


@pytest.mark.smoke
async def test_deleting_a_conversation_deletes_its_messages_and_their_traces(
    chat: MessageStore,
) -> None:
    await chat.store_messages([message("m1"), message("m2")])
    await chat.store_turn_trace(trace("m1"))

    await chat.delete_conversation("c1")

    assert await chat.get_messages_by_ids(["m1", "m2"]) == []
    assert await chat.get_messages_by_conversation_id("c1") == []
    assert await chat.get_messages_by_user_id("u1") == []
    assert await chat.get_turn_trace_by_id("trace-of-m1") is None
    assert await chat.get_turn_trace_by_message_id("m1") is None
    assert await chat.get_turn_traces_by_conversation_id("c1") == []
    assert await chat.get_turn_traces_by_agent_id("a1") == []


async def test_deleting_a_conversation_leaves_the_others_alone(chat: MessageStore) -> None:
    await chat.store_message(message("m1"))
    await chat.store_conversation(conversation("c2"))
    await chat.store_message(message("m2", conversation_id="c2"))
    await chat.store_turn_trace(trace("m2", conversation_id="c2"))

    await chat.delete_conversation("c1")

    assert await chat.get_conversations_by_user_id("u1") == [conversation("c2")]
    assert ids(await chat.get_messages_by_user_id("u1")) == ["m2"]
    assert ids(await chat.get_turn_traces_by_agent_id("a1")) == ["trace-of-m2"]


async def test_a_conversation_deleted_and_stored_again_is_empty(chat: MessageStore) -> None:
    await chat.store_turn(messages=[message()], trace=trace())

    await chat.delete_conversation("c1")
    await chat.store_conversation(conversation())

    assert await chat.get_messages_by_conversation_id("c1") == []
    assert await chat.get_turn_traces_by_conversation_id("c1") == []
