"""A turn is known by its message, a question and a flow by their ids: reports acted out."""

from __future__ import annotations

import pytest

from jazzmine import IntegrityError
from jazzmine.core.working_memory import (
    ActiveFlowState,
    PendingConfirmation,
    Slot,
    TurnCache,
    WorkingMemory,
    WorkingMemoryStore,
)
from jazzmine.errors import StaleWorkingMemoryError


@pytest.fixture
async def store(memory_store: WorkingMemoryStore) -> WorkingMemoryStore:
    """The store, with the conversation "c" in a flow that has asked for the user's yes."""
    await memory_store.get_or_create("c", "ann", "agent")
    await memory_store.begin_turn("c", TurnCache(message_id="m1"))
    await memory_store.start_flow("c", ActiveFlowState("f1", "pay", "flow"))
    await memory_store.register_slots("c", [Slot("sum", "", "int")])
    await memory_store.collect_slot("c", "sum", 10)
    question = PendingConfirmation("f1", "Pay 10?", {"sum": 10}, 1, id="q1")
    await memory_store.request_confirmation("c", question)
    return memory_store


def add_one(wm: WorkingMemory) -> None:
    wm.set_data(count=wm.data.get("count", 0) + 1)


@pytest.mark.smoke
async def test_a_message_that_is_delivered_twice_is_one_turn(store: WorkingMemoryStore) -> None:
    for _ in range(3):
        memory = await store.begin_turn("c", TurnCache(message_id="m2"))

    assert memory.turn_number == 2
    assert memory.pending_confirmation is not None


@pytest.mark.smoke
async def test_the_change_of_a_message_is_made_once(store: WorkingMemoryStore) -> None:
    for message in ("m2", "m2", "m3", "m2"):
        memory = await store.update("c", add_one, message_id=message)
    async with store.locked("c", message_id="m3") as block:
        add_one(block)
    async with store.locked("c", message_id="m4") as block:
        add_one(block)
    with pytest.raises(TypeError, match="message_id must be a str, not int"):
        async with store.locked("c", message_id=5) as block:  # type: ignore[arg-type]
            add_one(block)

    current = await store.get("c")
    assert memory.data == {"count": 2}
    assert current is not None
    assert current.data == {"count": 3}
    assert current.applied_messages == ["m2", "m3", "m4"]


async def test_the_last_sixteen_messages_are_known(store: WorkingMemoryStore) -> None:
    for number in range(20):
        await store.update("c", add_one, message_id=f"m{number}")
    await store.update("c", add_one, message_id="m4")

    memory = await store.update("c", add_one, message_id="m3")

    assert memory.data == {"count": 21}


async def test_a_change_that_leaves_it_is_not_remembered(store: WorkingMemoryStore) -> None:
    await store.update("c", lambda wm: False, message_id="m2")

    assert (await store.update("c", add_one, message_id="m2")).data == {"count": 1}


@pytest.mark.smoke
async def test_one_of_two_callers_learns_that_it_has_confirmed(store: WorkingMemoryStore) -> None:
    first = await store.confirm_action("c", "q1")
    second = await store.confirm_action("c", "q1")

    assert first.confirmed is not None
    assert first.confirmed.action_payload == {"sum": 10}
    assert second.confirmed is None
    assert (await store.get_or_create("c", "ann", "agent")).confirmed is None


@pytest.mark.smoke
async def test_a_digression_is_two_calls(store: WorkingMemoryStore) -> None:
    await store.suspend_flow("c")
    await store.start_flow("c", ActiveFlowState("f2", "hours", "flow"))
    memory = await store.complete_flow("c", "f2")

    assert memory.active_flow is not None
    assert memory.active_flow.flow_id == "f1"
    assert memory.pending_confirmation is not None
    assert [flow.flow_name for flow in memory.flow_history] == ["hours"]


@pytest.mark.smoke
async def test_an_earlier_state_is_restored(store: WorkingMemoryStore) -> None:
    before = await store.get("c")
    assert before is not None
    await store.complete_flow("c", "f1")

    restored = await store.restore("c", before)

    assert restored.active_flow == before.active_flow
    assert restored.revision == before.revision + 2
    assert await store.get("c") == restored
    assert (await store.confirm_action("c", "q1")).confirmed is not None
    with pytest.raises(ValueError, match="conversation 'c'"):
        await store.restore("d", before)


async def test_a_state_is_not_restored_over_what_others_have_saved(
    store: WorkingMemoryStore, memory_config: dict[str, object]
) -> None:
    if memory_config["storage"] == "memory":
        return
    before = await store.get("c")
    assert before is not None
    async with await WorkingMemoryStore.initialize(memory_config) as other:
        await other.end_turn("c", "Hello", "greet")

    with pytest.raises(StaleWorkingMemoryError):
        await store.restore("c", before)


async def test_statuses_are_derived_after_changes_in_place(store: WorkingMemoryStore) -> None:
    def drop_the_question(wm: WorkingMemory) -> None:
        wm.pending_confirmation = None

    memory = await store.update("c", drop_the_question)

    assert memory.to_dict()["status"] == "in_flow"
    assert memory.active_flow is not None
    assert memory.active_flow.status.value == "active"


async def test_another_user_s_working_memory_is_refused(store: WorkingMemoryStore) -> None:
    with pytest.raises(IntegrityError, match="another user"):
        await store.get_or_create("c", "eve", "agent")
