"""Conversations are stored, listed by their owners, and deleted with their messages."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine import NotFoundError
from jazzmine.core.message_store import MessageStore
from tests.behaviour.samples import conversation, ids

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
