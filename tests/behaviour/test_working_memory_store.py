"""Every update of a store makes its transition under the lock, and saves the result."""

from __future__ import annotations

import logging
from unittest.mock import patch

import pytest

from jazzmine.core.working_memory import TurnCache, WorkingMemory, WorkingMemoryStore
from jazzmine.records.memory_copy import deep_copy
from tests.behaviour.apis import Api
from tests.behaviour.memory_samples import (
    INVALID_UPDATES,
    NOT_APPLYING_UPDATES,
    UPDATES,
    InvalidUpdate,
    Update,
    busy,
    clear_deeply,
    timeless,
)

each_update = pytest.mark.parametrize("update", UPDATES, ids=str)
each_idle_update = pytest.mark.parametrize("update", NOT_APPLYING_UPDATES, ids=str)
each_invalid_update = pytest.mark.parametrize("update", INVALID_UPDATES, ids=str)


@pytest.mark.each_value
@each_update
async def test_an_update_makes_the_transition_of_the_working_memory_in_one_save(
    memory_store: WorkingMemoryStore, update: Update
) -> None:
    saved = await memory_store.save(busy("c"))
    other = await memory_store.save(busy("other"))
    expected = deep_copy(saved)
    assert update.on_memory(expected)
    expected.revision += 1

    updated = await update.on(memory_store, "c")

    assert timeless(updated) == timeless(expected)
    assert updated.created_at == saved.created_at
    assert updated.last_updated >= saved.last_updated
    assert await memory_store.get("c") == updated
    assert await memory_store.get("other") == other


@each_update
async def test_the_arguments_and_the_result_of_an_update_are_copied(
    memory_store: WorkingMemoryStore, update: Update
) -> None:
    await memory_store.save(busy("c"))
    arguments = update.arguments()
    updated = await Update(update.name, lambda: arguments).on(memory_store, "c")
    before = {**updated.to_dict(), "confirmed": None}  # which the one caller alone is told

    clear_deeply(arguments)
    assert {**updated.to_dict(), "confirmed": None} == before
    clear_deeply(updated)

    stored = await memory_store.get("c")
    assert stored is not None
    assert stored.to_dict() == before


# The lock is free after each update that is refused.


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


@each_invalid_update
async def test_an_update_with_invalid_arguments_is_refused_and_changes_nothing(
    memory_store: WorkingMemoryStore, update: InvalidUpdate
) -> None:
    saved = await memory_store.save(busy("c"))

    with pytest.raises(update.error):
        await update.on(memory_store, "c")

    assert await memory_store.get("c") == saved
    assert (await memory_store.collect_slot("c", "size", 42)).revision == saved.revision + 1


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
