"""A function of the caller is one update; strict stores refuse; blocks that ended refuse, too."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import pytest
from pydantic import ValidationError

from jazzmine.core.working_memory import (
    ActiveFlowState,
    ConversationStatus,
    Slot,
    TurnCache,
    WorkingMemory,
    WorkingMemoryStore,
)
from jazzmine.errors import NotAppliedError
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config
from tests.behaviour.memory_samples import NOT_APPLYING_UPDATES, Update, busy

each_idle_update = pytest.mark.parametrize("update", NOT_APPLYING_UPDATES, ids=str)


def count_up(memory: WorkingMemory) -> None:
    memory.data["count"] = memory.data.get("count", 0) + 1


@pytest.mark.smoke
async def test_functions_at_once_are_all_applied(
    api: Api, memory_store: WorkingMemoryStore
) -> None:
    created = await memory_store.get_or_create("c", "user", "agent")

    await api.gather(*[lambda: memory_store.update("c", count_up)] * 20)

    stored = await memory_store.get("c")
    assert stored is not None
    assert stored.data == {"count": 20}
    assert stored.revision == 21
    assert stored.last_updated > created.last_updated


@pytest.mark.smoke
async def test_a_function_of_one_store_is_applied_to_what_another_one_has_saved(
    api: Api, memory_config: Config, memory_store: WorkingMemoryStore
) -> None:
    async with await api.WorkingMemoryStore.initialize(memory_config) as other:
        if memory_config["storage"] == "memory":
            other = memory_store
        await memory_store.get_or_create("c", "user", "agent")
        for _ in range(3):
            await memory_store.update("c", count_up)
            updated = await other.update("c", count_up)

        assert updated.data == {"count": 6}
        assert updated.revision == 7
        await memory_store.start_flow("c", ActiveFlowState("f1", "order", "flow"))
        await other.update("c", count_up)
        updated = await memory_store.register_slots("c", iter([Slot("size", "", "str")]))
        assert [slot.name for slot in updated.pending_slots] == ["size"]


def change_and_raise(memory: WorkingMemory) -> None:
    memory.complete_flow()
    raise ZeroDivisionError("stop")


def leave_what_cannot_be_stored(memory: WorkingMemory) -> None:
    memory.data["cart"] = object()


def change_and_regret(memory: WorkingMemory) -> bool:
    memory.data["cart"] = [1]
    return False


def return_something_else(memory: WorkingMemory) -> Any:
    return "yes"


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (change_and_raise, ZeroDivisionError, "stop"),
        (leave_what_cannot_be_stored, ValidationError, "data"),
        (return_something_else, TypeError, "None or a bool"),
        (change_and_regret, None, ""),
    ],
)
async def test_a_function_that_is_refused_or_regrets_changes_nothing(
    memory_store: WorkingMemoryStore, change: Any, error: type[Exception] | None, text: str
) -> None:
    saved = await memory_store.save(busy("c"))

    with nullcontext() if error is None else pytest.raises(error, match=text):
        assert await memory_store.update("c", change) == saved

    assert await memory_store.get("c") == saved
    assert (await memory_store.update("c", count_up)).revision == saved.revision + 1


async def test_what_a_function_keeps_of_its_argument_changes_nothing_later(
    memory_store: WorkingMemoryStore,
) -> None:
    await memory_store.get_or_create("c", "user", "agent")
    kept: list[WorkingMemory] = []
    updated = await memory_store.update("c", kept.append)

    for memory in kept:
        memory.data["late"] = True

    assert await memory_store.get("c") == updated


async def test_data_is_merged_by_key_and_none_removes_one(memory_store: WorkingMemoryStore) -> None:
    await memory_store.get_or_create("c", "user", "agent")

    await memory_store.set_data("c", cart=[{"id": 7}], draft="Dear")
    updated = await memory_store.set_data("c", draft=None, step=2)

    assert updated.data == {"cart": [{"id": 7}], "step": 2}
    assert await memory_store.get("c") == updated


async def test_the_error_status_lasts_until_the_next_transition(
    memory_store: WorkingMemoryStore,
) -> None:
    await memory_store.get_or_create("c", "user", "agent")

    def fail(memory: WorkingMemory) -> None:
        memory.status = ConversationStatus.ERROR

    failed = await memory_store.update("c", fail)
    ended = await memory_store.end_turn("c", "Sorry", "error")

    assert failed.status is ConversationStatus.ERROR
    assert ended.status is ConversationStatus.IDLE


@each_idle_update
async def test_a_strict_store_refuses_what_does_not_apply(
    api: Api, memory_config: Config, update: Update, caplog: pytest.LogCaptureFixture
) -> None:
    async with await api.WorkingMemoryStore.initialize({**memory_config, "strict": True}) as store:
        created = await store.get_or_create("c", "user", "agent")

        with (
            caplog.at_level(logging.WARNING, logger="jazzmine"),
            pytest.raises(NotAppliedError, match=f"'c': {update.name} changed nothing: "),
        ):
            await update.on(store, "c")

        assert await store.get("c") == created
        assert caplog.messages == []


async def test_a_strict_store_refuses_in_blocks_and_functions_too(
    api: Api, memory_config: Config
) -> None:
    async with await api.WorkingMemoryStore.initialize({**memory_config, "strict": True}) as store:
        await store.get_or_create("c", "user", "agent")

        async with store.locked("c") as memory:
            memory.status = ConversationStatus.ERROR
            with pytest.raises(NotAppliedError, match="no active flow"):
                memory.complete_flow()
        with pytest.raises(NotAppliedError, match="no active flow"):
            await store.update("c", lambda memory: memory.complete_flow())


async def test_changes_after_a_block_are_refused(
    memory_store: WorkingMemoryStore,
) -> None:
    await memory_store.save(busy("c"))
    async with memory_store.locked("c") as memory:
        memory.entity_max_age_turns = 9
    stored = await memory_store.get("c")

    with pytest.raises(RuntimeError, match="'c' has ended"):
        memory.collect_slot("size", 42)
    with pytest.raises(RuntimeError, match="'c' has ended"):
        memory.entity_max_age_turns = 3

    assert await memory_store.get("c") == stored == memory


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
