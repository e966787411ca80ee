"""Every update of a store makes its transition under the lock, and saves the result."""

from __future__ import annotations

import logging
from unittest.mock import patch

import pytest

from jazzmine.core.working_memory import (
    ActiveFlowState,
    ConversationStatus,
    FlowStatus,
    PendingConfirmation,
    Slot,
    ToolCallRecord,
    TurnCache,
    WorkingMemory,
    WorkingMemoryStore,
)
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


@pytest.mark.parametrize(
    "update",
    [
        Update("collect_slot", lambda: ("no such slot", 1)),
        Update("record_branch_result", lambda: ("branch_3", 1)),
    ],
    ids=str,
)
async def test_an_unknown_name_in_a_flow_changes_nothing_and_is_logged(
    memory_store: WorkingMemoryStore, update: Update, caplog: pytest.LogCaptureFixture
) -> None:
    saved = await memory_store.save(busy("c"))

    with caplog.at_level(logging.WARNING, logger="jazzmine"):
        returned = await update.on(memory_store, "c")

    assert returned == saved
    assert await memory_store.get("c") == saved
    assert update.arguments()[0] in caplog.text


@each_invalid_update
async def test_an_update_with_invalid_arguments_is_refused_and_changes_nothing(
    memory_store: WorkingMemoryStore, update: InvalidUpdate
) -> None:
    saved = await memory_store.save(busy("c"))

    with pytest.raises(update.error):
        await update.on(memory_store, "c")

    assert await memory_store.get("c") == saved
    assert (await memory_store.collect_slot("c", "size", 42)).revision == saved.revision + 1


async def test_an_iterable_that_fails_half_way_registers_no_slot(
    memory_store: WorkingMemoryStore,
) -> None:
    saved = await memory_store.save(busy("c"))

    with pytest.raises(ZeroDivisionError):
        await memory_store.register_slots("c", (Slot(str(1 // n), "", "") for n in (1, 0)))

    assert await memory_store.get("c") == saved
    assert (await memory_store.end_turn("c", "Hello", "greet")).revision == saved.revision + 1


@pytest.mark.smoke
async def test_an_order_goes_from_the_first_question_to_the_archive(
    memory_store: WorkingMemoryStore,
) -> None:
    store = memory_store
    flow = ActiveFlowState("f", "order", "sequentialflow", started_at_turn=1, total_steps=2)
    await store.get_or_create("c", "user", "agent")

    await store.begin_turn("c", TurnCache(1, intent="buy", is_continuation=False))
    await store.start_flow("c", flow)
    asking = await store.register_slots("c", [Slot("size", "the size", "int")])
    await store.end_turn("c", "Which size?", "ask")
    await store.begin_turn("c", TurnCache(2, intent="answer"))
    answered = await store.collect_slot("c", "size", 42)
    await store.record_tool_call(
        "c", ToolCallRecord("reserve", {"size": 42}, result_summary="held")
    )
    await store.advance_sequential_step("c", {"reserved": True})
    asked = await store.request_confirmation("c", PendingConfirmation("f", "order", {"n": 1}, 2))
    confirmed = await store.confirm_action("c")
    done = await store.complete_flow("c")

    assert asking.status is ConversationStatus.COLLECTING_SLOTS
    assert answered.status is ConversationStatus.IN_FLOW
    assert asked.status is ConversationStatus.AWAITING_CONFIRMATION
    assert confirmed.status is ConversationStatus.IN_FLOW
    assert confirmed.active_flow is not None
    assert confirmed.active_flow.step_results == [{"reserved": True}]
    assert done.status is ConversationStatus.IDLE
    assert done.revision == 12
    [record] = done.flow_history
    assert record.status == FlowStatus.COMPLETED.value
    assert record.slot_values == {"size": 42}
    assert record.tool_summaries == ["held"]
    assert (record.started_at_turn, record.ended_at_turn) == (1, 2)


async def test_a_flow_in_progress_is_archived_and_logged_when_another_starts(
    memory_store: WorkingMemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    await memory_store.save(busy("c"))

    with caplog.at_level(logging.WARNING, logger="jazzmine"):
        updated = await memory_store.start_flow("c", ActiveFlowState("f2", "refund", "flow"))

    assert [(flow.flow_name, flow.status) for flow in updated.flow_history] == [
        ("order", "cancelled")
    ]
    assert updated.pending_confirmation is None
    assert "'order'" in caplog.text


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


@pytest.mark.smoke
async def test_every_update_can_be_called_by_keyword(memory_store: WorkingMemoryStore) -> None:
    conversation_id = "c"
    call = ToolCallRecord("search", {})
    question = PendingConfirmation("f", "sure?", {}, 1)
    slots = [Slot("size", "", "int")]
    flow = ActiveFlowState("f", "order", "flow", total_steps=1, branch_results={"branch_1": None})
    await memory_store.get_or_create(
        conversation_id=conversation_id, user_id="user", agent_id="agent"
    )
    await memory_store.begin_turn(conversation_id=conversation_id, turn_cache=TurnCache(1))
    await memory_store.start_flow(conversation_id=conversation_id, flow_state=flow)
    await memory_store.register_slots(conversation_id=conversation_id, slots=slots)
    await memory_store.collect_slot(
        conversation_id=conversation_id, slot_name="size", value=42, validation_error=""
    )
    await memory_store.record_tool_call(conversation_id=conversation_id, record=call)
    await memory_store.advance_sequential_step(
        conversation_id=conversation_id, step_result={"found": 1}
    )
    await memory_store.record_branch_result(
        conversation_id=conversation_id, branch_id="branch_1", result=1
    )
    await memory_store.set_condition_branch(conversation_id=conversation_id, branch="yes")
    await memory_store.request_confirmation(conversation_id=conversation_id, confirmation=question)
    await memory_store.confirm_action(conversation_id=conversation_id)
    await memory_store.complete_flow(conversation_id=conversation_id)
    ended = await memory_store.end_turn(
        conversation_id=conversation_id, agent_response="Done", agent_intent="ok", topic_summary=""
    )

    assert ended.revision == 13
    assert ended.flows_completed_names == ["order"]
    assert await memory_store.get(conversation_id=conversation_id) == ended
    assert await memory_store.delete(conversation_id=conversation_id)
