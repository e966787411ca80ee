"""Conversations are stored, listed by their owners, and deleted with their messages."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine import NotFoundError
from jazzmine.core.message_store import MessageStore
from tests.behaviour.samples import NOW, conversation, ids, message, trace

each_owner = pytest.mark.parametrize("owner", ["user", "agent"])
each_write = pytest.mark.parametrize("write", ["store_conversation", "update_conversation"])


async def listed(store: MessageStore, owner: str, of: str = "", **page: Any) -> list[str]:
    """Return the ids of the conversations of a user or an agent, by default "u1" or "a1"."""
    method = getattr(store, f"get_conversations_by_{owner}_id")
    return ids(await method(of or f"{owner[0]}1", **page))


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


@each_owner
async def test_conversations_are_listed_newest_first(store: MessageStore, owner: str) -> None:
    await store.store_conversation(conversation("middle", last_updated_at=NOW + 1))
    await store.store_conversation(conversation("oldest", last_updated_at=-5))
    await store.store_conversation(conversation("newest", last_updated_at=NOW + 2))

    assert await listed(store, owner) == ["newest", "middle", "oldest"]


@each_owner
async def test_equally_new_conversations_are_listed_latest_stored_first(
    store: MessageStore, owner: str
) -> None:
    await store.store_conversation(conversation("b"))
    await store.store_conversation(conversation("c"))
    await store.store_conversation(conversation("a"))

    assert await listed(store, owner) == ["a", "c", "b"]


@each_owner
async def test_storing_a_conversation_again_does_not_move_it_among_equals(
    store: MessageStore, owner: str
) -> None:
    await store.store_conversation(conversation("b"))
    await store.store_conversation(conversation("c"))
    await store.store_conversation(conversation("a"))

    await store.store_conversation(conversation("b", title="Another title"))

    assert await listed(store, owner) == ["a", "c", "b"]


@each_owner
async def test_a_conversation_updated_later_moves_to_the_front(
    store: MessageStore, owner: str
) -> None:
    await store.store_conversation(conversation("a"))
    await store.store_conversation(conversation("b"))

    await store.update_conversation(conversation("a", last_updated_at=NOW + 1))

    assert await listed(store, owner) == ["a", "b"]


@each_owner
async def test_a_conversation_deleted_and_stored_again_is_the_latest_stored(
    store: MessageStore, owner: str
) -> None:
    await store.store_conversation(conversation("a"))
    await store.store_conversation(conversation("b"))

    await store.delete_conversation("a")
    await store.store_conversation(conversation("a"))

    assert await listed(store, owner) == ["a", "b"]


@each_owner
async def test_a_listing_holds_the_conversations_of_its_owner_alone(
    store: MessageStore, owner: str
) -> None:
    await store.store_conversation(conversation("mine"))
    await store.store_conversation(conversation("other", user_id="u2", agent_id="a2"))

    assert await listed(store, owner) == ["mine"]
    assert await listed(store, owner, f"{owner[0]}2") == ["other"]
    assert await listed(store, owner, "nobody") == []


@each_owner
async def test_a_conversation_with_another_user_changes_listings(
    store: MessageStore, owner: str
) -> None:
    await store.store_conversation(conversation("c1"))

    await store.store_conversation(conversation("c1", user_id="u2", agent_id="a2"))

    assert await listed(store, owner) == []
    assert await listed(store, owner, f"{owner[0]}2") == ["c1"]


@pytest.mark.smoke
@each_owner
async def test_pages_of_conversations_add_up_to_the_listing(
    store: MessageStore, owner: str
) -> None:
    await store.store_conversation(conversation("a"))
    await store.store_conversation(conversation("b", last_updated_at=NOW - 1))
    await store.store_conversation(conversation("c"))
    await store.store_conversation(conversation("d"))

    assert await listed(store, owner, limit=2) == ["d", "c"]
    assert await listed(store, owner, limit=2, after="c") == ["a", "b"]
    assert await listed(store, owner, limit=2, after="b") == []
    assert await listed(store, owner, after="d") == ["c", "a", "b"]


@each_owner
async def test_a_page_of_no_conversations_is_empty(store: MessageStore, owner: str) -> None:
    await store.store_conversation(conversation())

    assert await listed(store, owner, limit=0) == []


@each_owner
async def test_the_next_page_of_conversations_is_right_after_changes(
    store: MessageStore, owner: str
) -> None:
    await store.store_conversation(conversation("a"))
    await store.store_conversation(conversation("b"))
    await store.store_conversation(conversation("c"))
    assert await listed(store, owner, limit=1) == ["c"]

    await store.store_conversation(conversation("newer", last_updated_at=NOW + 1))
    await store.store_conversation(conversation("older", last_updated_at=NOW - 1))
    await store.delete_conversation("a")

    assert await listed(store, owner, after="c") == ["b", "older"]


@each_owner
async def test_a_page_after_a_conversation_that_is_not_there_is_refused(
    store: MessageStore, owner: str
) -> None:
    await store.store_conversation(conversation("c1"))
    await store.store_conversation(conversation("gone"))
    await store.delete_conversation("gone")

    with pytest.raises(NotFoundError, match="gone"):
        await listed(store, owner, after="gone")


@each_owner
async def test_a_page_after_a_conversation_of_another_owner_is_refused(
    store: MessageStore, owner: str
) -> None:
    await store.store_conversation(conversation("c1"))
    await store.store_conversation(conversation("other", user_id="u2", agent_id="a2"))

    with pytest.raises(NotFoundError, match="other"):
        await listed(store, owner, after="other")


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
