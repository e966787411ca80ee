"""The default values of records, and that they are stored."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.core.message_store import Conversation, Message, MessageRole, MessageStore
from tests.behaviour.backends import Config
from tests.behaviour.samples import conversation, message
from tests.behaviour.stored import put


def short_message(**fields: Any) -> Message:
    return Message(
        conversation_id="c1",
        user_id="u1",
        role=MessageRole.USER,
        original_content="hello",
        **fields,
    )


async def test_a_conversation_needs_its_user_and_its_agent_alone(store: MessageStore) -> None:
    before = time.time_ns() // 1_000_000
    short = Conversation(user_id="u1", agent_id="a1")
    await store.store_conversation(short)
    after = time.time_ns() // 1_000_000

    assert await store.get_conversations_by_user_id("u1") == [short]
    assert before <= short.created_at <= after
    assert (short.last_updated_at, short.title) == (short.created_at, "")
    assert len(short.id) == 36


async def test_a_message_needs_no_id_and_no_time(chat: MessageStore) -> None:
    before = time.time_ns() // 1_000_000
    short = [short_message() for _ in range(20)]
    await chat.store_messages(short)

    found = await chat.get_messages_by_conversation_id("c1")
    assert sorted(found, key=lambda m: m.id) == sorted(short, key=lambda m: m.id)
    assert len({m.id for m in found}) == 20
    assert all(before <= m.timestamp <= before + 60_000 for m in found)


@pytest.mark.smoke
@pytest.mark.parametrize("missing", ["timestamp", "id"])
async def test_a_stored_message_does_not_get_a_default_that_is_new_whenever_it_is_read(
    store: MessageStore, config: Config, missing: str
) -> None:
    if config["storage"] == "postgres":
        pytest.skip("no column can be missing")
    if config["storage"] == "json":
        pytest.skip("a file with a record that breaks a rule is refused")
    wrong = message("m2").model_dump(mode="json")
    del wrong[missing]
    put(
        config,
        [conversation().model_dump(mode="json")],
        [message("m1").model_dump(mode="json"), wrong],
    )

    assert await store.get_messages_by_conversation_id("c1") == [message("m1")]
    if missing == "timestamp":
        with pytest.raises(ValidationError, match="timestamp"):
            await store.get_message_by_id("m2")
