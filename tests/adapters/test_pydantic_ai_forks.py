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
from tests.adapters.pydantic_ai_conversations import answered, asked, loaded, talk, texts


@pytest.fixture
def conversations(store: MessageStore) -> JazzmineConversationStore:
    return JazzmineConversationStore(store, agent_id="a1", user_id="u1")


async def test_a_branch_keeps_the_history_that_it_leaves(
    conversations: JazzmineConversationStore,
) -> None:
    first = await conversations.save(talk("c1", "one", "two", "three"))
    record = await conversations.read_record("c1")
    assert record is not None
    branched = await conversations.branch("c1", at=1, expected_revision=record.revision)
    branched.messages.append(answered("other"))
    await conversations.save(branched)

    assert await loaded(conversations, "c1") == ["one", "other"]
    record = await conversations.read_record("c1")
    assert record is not None
    assert record.branches == [first[-1].id]
    back = await conversations.branch(
        "c1", from_entry=first[-1].id, expected_revision=record.revision
    )
    assert texts(back.messages) == ["one", "two", "three"]


async def test_a_rewritten_history_branches_off(conversations: JazzmineConversationStore) -> None:
    entries = await conversations.save(talk("c1", "one", "two"))
    conversation = await conversations.load("c1")
    assert conversation is not None
    conversation.messages[1] = answered("better")
    await conversations.save(conversation)

    assert await loaded(conversations, "c1") == ["one", "better"]
    assert texts([one.message for one in await conversations.read_history(entries[1].id)]) == [
        "one",
        "two",
    ]


async def test_a_fork_copies_entries_and_outlives_its_source(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    entries = await conversations.save(talk("c1", "one", "two", "three"))
    fork = await conversations.fork("c1", at=2, new_conversation_id="c2")
    fork.messages.append(asked("mine"))
    await conversations.save(fork)

    copies = (await conversations.load_entries("c2") or [])[:2]
    assert [copy.message for copy in copies] == [entry.message for entry in entries[:2]]
    await conversations.delete("c1")

    assert await conversations.load("c1") is None
    assert await loaded(conversations, "c2") == ["one", "two", "mine"]
    with pytest.raises(LookupError):
        await conversations.read_entry(entries[2].id)
    assert [one.conversation_id for one in await conversations.list_conversations()] == ["c2"]

    await conversations.delete("c2")
    assert await store.get_conversation_by_id("c1") is None
    assert await store.get_conversation_by_id("c2") is None


async def test_a_fork_to_a_stored_conversation_is_a_conflict(
    conversations: JazzmineConversationStore,
) -> None:
    await conversations.save(talk("c1", "one"))
    await conversations.save(talk("c2", "two"))
    with pytest.raises(ConversationConflict):
        await conversations.fork("c1", new_conversation_id="c2")

    assert await loaded(conversations, "c2") == ["two"]


async def test_a_deleted_conversation_leaves_nothing(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    (entry,) = await conversations.save(talk("c1", "secret"))
    conversation = await conversations.load("c1")
    await conversations.delete("c1")

    assert await store.get_conversation_by_id("c1") is None
    assert await store.get_message_by_id(entry.id) is None
    assert conversation is not None
    with pytest.raises(ConversationConflict):
        await conversations.save(conversation)
    with pytest.raises(ConversationConflict):
        await conversations.delete_record("c1", expected_revision="r")
    await conversations.save(talk("c1", "anew"))
    assert await loaded(conversations, "c1") == ["anew"]


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
