"""The calls of an agent for jazzmine 0.1 work, with every argument by its old name."""

from __future__ import annotations

from jazzmine.core.message_store import MessageStore
from jazzmine.core.working_memory import (
    ActiveFlowState,
    ConversationStatus,
    FlowStatus,
    PendingConfirmation,
    Slot,
    ToolCallRecord,
    TurnCache,
    WorkingMemoryStore,
)
from tests.behaviour.samples import conversation, message, trace


class SequentialFlow:
    """A flow with the attributes that `from_flow` reads."""

    id = "f1"
    name = "refund"
    priority = (1, 2)
    tools = ("lookup",)
    subflows = ("ask", "pay")


class ParallelFlow(SequentialFlow):
    id = "f2"


async def test_the_calls_of_a_turn_to_the_message_store(store: MessageStore) -> None:
    assert await store.get_conversation_by_id(conversation_id="c1") is None
    await store.store_conversation(conversation=conversation())
    await store.update_conversation(conversation=conversation(title="New"))
    await store.store_message(message=message("m1"))
    await store.store_messages(messages=[message("m2"), message("m3")])
    await store.update_message(message=message("m1", enhanced_message="better"))
    await store.flag_message(message_id="m2")
    await store.store_turn_trace(trace=trace("m3", id="t1"))

    context = await store.get_immediate_context(conversation_id="c1", n=8)
    assert [m.id for m in context] == ["m1", "m3"]
    found = await store.get_turn_trace_by_message_id(message_id="m3")
    assert found == await store.get_turn_trace_by_id(trace_id="t1") == trace("m3", id="t1")
    page = await store.get_turn_traces_by_agent_id(agent_id="a1", limit=5, offset=0)
    assert page == await store.get_turn_traces_by_conversation_id(conversation_id="c1") == [found]


async def test_the_calls_of_an_api_to_the_message_store(chat: MessageStore) -> None:
    await chat.store_messages(messages=[message("m1"), message("m2")])

    listed = await chat.get_messages_by_conversation_id(conversation_id="c1")
    assert listed == await chat.get_messages_by_user_id(user_id="u1")
    assert listed == await chat.get_messages_by_ids(message_ids=["m1", "m2"])
    assert listed[0] == await chat.get_message_by_id(message_id="m1")
    mine = await chat.get_conversations_by_user_id(user_id="u1")
    assert mine == await chat.get_conversations_by_agent_id(agent_id="a1") == [conversation()]

    await chat.delete_message(message_id="m1")
    await chat.delete_conversation(conversation_id="c1")
    assert await chat.get_conversations_by_user_id(user_id="u1") == []


async def test_the_calls_of_a_turn_with_a_sequential_flow(memory_store: WorkingMemoryStore) -> None:
    wm = await memory_store.get_or_create(conversation_id="c1", user_id="u1", agent_id="a1")
    cache = TurnCache.from_enhancer_and_selector(
        turn_number=wm.turn_number + 1,
        enhanced_msg=message(enhanced_message="a refund, please"),
        same_episodes=[],
        prev_episodes=[],
        semantic_terms=[],
        selection=None,
    )
    wm = await memory_store.begin_turn(conversation_id="c1", turn_cache=cache)
    flow = ActiveFlowState.from_flow(flow=SequentialFlow(), turn_number=wm.turn_number)
    await memory_store.start_flow(conversation_id="c1", flow_state=flow)
    record = ToolCallRecord(
        tool_name="shell", arguments={"task": "look"}, result=1, result_summary="found", step=0
    )
    await memory_store.record_tool_call(conversation_id="c1", record=record)
    await memory_store.advance_sequential_step(conversation_id="c1", step_result={"step": 0})
    wm = await memory_store.advance_sequential_step(conversation_id="c1", step_result={"step": 1})

    assert wm.active_flow is not None
    assert wm.active_flow.is_sequential_complete
    wm = await memory_store.complete_flow(conversation_id="c1")
    assert [past.flow_name for past in wm.flow_history] == ["refund"]
    wm = await memory_store.end_turn(
        conversation_id="c1", agent_response="Done.", agent_intent="refund", topic_summary="money"
    )
    assert wm == await memory_store.get(conversation_id="c1")
    await memory_store.delete(conversation_id="c1")
    assert await memory_store.get(conversation_id="c1") is None


async def test_the_calls_that_collect_slots_and_ask(memory_store: WorkingMemoryStore) -> None:
    await memory_store.get_or_create(conversation_id="c1", user_id="u1", agent_id="a1")
    flow = ActiveFlowState(flow_id="f1", flow_name="refund", flow_type="flow")
    await memory_store.start_flow(conversation_id="c1", flow_state=flow)
    slots = [Slot(name="order", description="its number", type="int")]
    wm = await memory_store.register_slots(conversation_id="c1", slots=slots)
    assert wm.status is ConversationStatus.COLLECTING_SLOTS
    await memory_store.collect_slot(
        conversation_id="c1", slot_name="order", value="x", validation_error="no number"
    )
    wm = await memory_store.collect_slot(conversation_id="c1", slot_name="order", value=7)
    assert wm.pending_slots == []

    asked = PendingConfirmation(
        flow_id="f1", action_description="Pay?", action_payload={}, requested_at_turn=1
    )
    wm = await memory_store.request_confirmation(conversation_id="c1", confirmation=asked)
    assert wm.has_pending_confirmation
    wm = await memory_store.confirm_action(conversation_id="c1")
    assert wm.active_flow is not None
    assert wm.active_flow.status is FlowStatus.ACTIVE
    wm = await memory_store.cancel_flow(conversation_id="c1")
    assert wm.flow_history[-1].status == "cancelled"


async def test_the_calls_of_other_flows(memory_store: WorkingMemoryStore) -> None:
    wm = await memory_store.get_or_create(conversation_id="c1", user_id="u1", agent_id="a1")
    parallel = ActiveFlowState.from_flow(flow=ParallelFlow(), turn_number=1)
    await memory_store.start_flow(conversation_id="c1", flow_state=parallel)
    for branch_id in ("branch_1", "branch_2"):
        wm = await memory_store.record_branch_result(
            conversation_id="c1", branch_id=branch_id, result={"done": True}
        )
    assert wm.active_flow is not None
    assert wm.active_flow.all_branches_done
    await memory_store.set_condition_branch(conversation_id="c1", branch="yes")
    wm = await memory_store.fail_flow(conversation_id="c1")
    assert wm.flow_history[-1].status == "failed"

    wm.last_agent_intent = "changed"
    await memory_store.save(wm=wm)
    stored = await memory_store.get(conversation_id="c1")
    assert stored is not None
    assert stored.last_agent_intent == "changed"
