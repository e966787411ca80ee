"""Updates that do not apply, and working memories with other limits."""

from __future__ import annotations

import logging
from unittest.mock import patch

import pytest

from jazzmine.core.working_memory import TurnCache, WorkingMemory, WorkingMemoryStore
from tests.behaviour.apis import Api
from tests.behaviour.memory_samples import NOT_APPLYING_UPDATES, Update

each_idle_update = pytest.mark.parametrize("update", NOT_APPLYING_UPDATES, ids=str)


@each_idle_update
async def test_an_update_that_does_not_apply_changes_nothing_and_is_logged(
    memory_store: WorkingMemoryStore, update: Update, caplog: pytest.LogCaptureFixture
) -> None:
    created = await memory_store.get_or_create("conversation-7", "user", "agent")

    with caplog.at_level(logging.WARNING, logger="jazzmine"):
        returned = await update.on(memory_store, "conversation-7")

    assert returned == created
    assert await memory_store.get("conversation-7") == created
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "conversation-7" in caplog.text
    assert update.name in caplog.text
    updated = await memory_store.end_turn("conversation-7", "Hello", "greet")
    assert updated.revision == created.revision + 1


class Brief(WorkingMemory):
    max_topic_history = 2


async def test_a_store_may_have_working_memories_with_other_limits(
    api: Api, memory_store: WorkingMemoryStore
) -> None:
    with patch.object(api.WorkingMemoryStore, "memory_type", Brief):
        await memory_store.get_or_create("c", "user", "agent")
        await memory_store.save(WorkingMemory("saved", "user", "agent"))

        for conversation_id in ("c", "saved"):
            for turn in range(4):
                updated = await memory_store.begin_turn(
                    conversation_id, TurnCache(turn, is_continuation=False)
                )
            read = await memory_store.get(conversation_id)

            assert type(read) is type(updated) is Brief
            assert [topic.turn_number for topic in updated.topic_history] == [2, 3]
            assert updated.topic_count == 4
