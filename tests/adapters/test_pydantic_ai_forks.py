"""Branches, forks and deletions of conversations of Pydantic AI."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.exceptions import UserError

import jazzmine.adapters.pydantic_ai as adapter
from jazzmine.adapters.pydantic_ai import JazzmineConversationStore
from jazzmine.core import MessageStore
from tests.adapters.scripted_pydantic_ai import asked, loaded, talk, texts


async def test_deletions_beside_saves_lose_no_save(
    conversations: JazzmineConversationStore,
) -> None:
    async def add(number: int) -> None:
        while True:
            conversation = await conversations.load("c1") or Conversation(conversation_id="c1")
            conversation.messages.append(asked(str(number)))
            try:
                await conversations.save(conversation)
            except ConversationConflict:
                continue
            return

    for number in range(10):
        await asyncio.gather(add(number), conversations.delete("c1"), conversations.delete("c1"))
        found = await conversations.load("c1")
        # It was saved before the deletions, or after them: then it is all that there is.
        assert found is None or texts(found.messages)[-1] == str(number)
        await add(100)
        assert (await loaded(conversations, "c1"))[-1] == "100"


async def test_a_deletion_beside_one_that_is_followed_by_a_save_is_no_error(
    conversations: JazzmineConversationStore, store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await conversations.save(talk("c1", "one"))
    append, stored = store.append_messages, await store.get_conversation_by_id("c1")
    assert stored is not None

    async def append_after_deletion(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.undo()
        await store.delete_conversation("c1")
        try:
            return await append(*args, **kwargs)
        finally:
            await store.store_conversation(stored)

    monkeypatch.setattr(store, "append_messages", append_after_deletion)

    await conversations.delete("c1")

    assert await conversations.load("c1") is None


async def nothing_is_left(store: MessageStore, conversations: JazzmineConversationStore) -> bool:
    for name in ("c1", "c2"):
        await conversations.delete(name)
    return not await store.get_conversations_by_agent_id("a1", limit=10)


async def test_a_fork_beside_deletions_is_whole_and_leaves_nothing(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    async def forked() -> bool:
        try:
            await conversations.fork("c1", new_conversation_id="c2")
        except UserError:
            return False
        return True

    for _ in range(10):
        await conversations.save(talk("c1", "one", "two"))
        whole, _ = await asyncio.gather(forked(), conversations.delete("c1"))
        if whole:
            assert await loaded(conversations, "c2") == ["one", "two"]
        assert await nothing_is_left(store, conversations)


async def test_a_save_finishes_a_deletion_that_was_interrupted(
    conversations: JazzmineConversationStore, store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = await conversations.save(talk("c1", "one"))

    async def fail(conversation_id: str) -> bool:
        raise OSError("interrupted")

    monkeypatch.setattr(store, "delete_conversation", fail)
    with pytest.raises(OSError, match="interrupted"):
        await conversations.delete("c1")
    monkeypatch.undo()
    monkeypatch.setattr(adapter, "_DELETION_MS", 0)

    await conversations.save(talk("c1", "anew"))

    assert await loaded(conversations, "c1") == ["anew"]
    assert await store.get_message_by_id(entry.id) is None
    assert await nothing_is_left(store, conversations)
