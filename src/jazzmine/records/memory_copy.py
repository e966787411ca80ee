"""Copy working memories that were validated before, without validating them again.

A field with a mutable value has a line here. That takes half the time of writing JSON and reading
it back, and of looking at the type of each value.
"""

from __future__ import annotations

from jazzmine.records.flow import (
    ActiveFlowState,
    FlowRecord,
    PendingConfirmation,
    Slot,
    SuspendedFlow,
)
from jazzmine.records.memory_base import changed_copy, shallow_copy
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache, WorkspaceEntity
from jazzmine.records.types import copy_json
from jazzmine.records.working_memory import WorkingMemory


def partial_copy(memory: WorkingMemory) -> WorkingMemory:
    """Return a copy for a transition to change.

    Copy and original share the records that no transition changes in place, such as tool calls and
    ended flows. So the copy must not be passed to the caller.
    """
    flow, turn, topics = memory.active_flow, memory.current_turn, [*memory.topic_history]
    if flow is not None:
        flow = changed_copy(
            flow,
            step_results=[*flow.step_results],
            branch_results={**flow.branch_results},
            tool_call_history=[*flow.tool_call_history],
            slots={name: shallow_copy(slot) for name, slot in flow.slots.items()},
        )
    if turn is not None:
        turn = changed_copy(turn, tool_calls=[*turn.tool_calls])
    if topics:
        topics[-1] = shallow_copy(topics[-1])  # its summary may be set
    return changed_copy(memory, active_flow=flow, current_turn=turn, topic_history=topics)


def deep_copy(memory: WorkingMemory) -> WorkingMemory:
    """Return a copy that shares no mutable object with the original."""
    flow, turn = memory.active_flow, memory.current_turn
    return changed_copy(
        memory,
        active_flow=None if flow is None else _flow_copy(flow),
        flow_history=[_ended_flow_copy(flow) for flow in memory.flow_history],
        pending_confirmation=confirmation_copy(memory.pending_confirmation),
        entity_workspace=_entities_copy(memory.entity_workspace),
        topic_history=[shallow_copy(topic) for topic in memory.topic_history],
        current_turn=None if turn is None else _turn_copy(turn),
        data=copy_json(memory.data),
        suspended_flows=[_suspended_copy(flow) for flow in memory.suspended_flows],
        turns_by_message=memory.turns_by_message.copy(),
        applied_messages=memory.applied_messages.copy(),
        confirmed=confirmation_copy(memory.confirmed),
    )


def confirmation_copy(question: PendingConfirmation | None) -> PendingConfirmation | None:
    """Return a copy of a question, if there is one, that shares no mutable object with it."""
    if question is None:
        return None
    return changed_copy(question, action_payload=copy_json(question.action_payload))


def _flow_copy(flow: ActiveFlowState) -> ActiveFlowState:
    return changed_copy(
        flow,
        priority=flow.priority.copy(),
        tools_required=flow.tools_required.copy(),
        step_results=copy_json(flow.step_results),
        branch_results=copy_json(flow.branch_results),
        tool_call_history=[_call_copy(call) for call in flow.tool_call_history],
        slots={name: _slot_copy(slot) for name, slot in flow.slots.items()},
    )


def _suspended_copy(suspended: SuspendedFlow) -> SuspendedFlow:
    flow, question = _flow_copy(suspended.flow), confirmation_copy(suspended.confirmation)
    return changed_copy(suspended, flow=flow, confirmation=question)


def _turn_copy(turn: TurnCache) -> TurnCache:
    before = turn.entities_before
    return changed_copy(
        turn,
        raw_entities=copy_json(turn.raw_entities),
        retrieved_same_conv_episodes=copy_json(turn.retrieved_same_conv_episodes),
        retrieved_prev_conv_episodes=copy_json(turn.retrieved_prev_conv_episodes),
        retrieved_semantic_terms=copy_json(turn.retrieved_semantic_terms),
        selected_flow_ids=turn.selected_flow_ids.copy(),
        unresolved_flow_ids=turn.unresolved_flow_ids.copy(),
        flow_candidates=copy_json(turn.flow_candidates),
        tool_calls=[_call_copy(call) for call in turn.tool_calls],
        entities_before=None if before is None else _entities_copy(before),
    )


def _entities_copy(entities: dict[str, WorkspaceEntity]) -> dict[str, WorkspaceEntity]:
    return {name: _entity_copy(entity) for name, entity in entities.items()}


# There are many of these records; setting each field by itself is quicker.


def _ended_flow_copy(flow: FlowRecord) -> FlowRecord:
    copied = shallow_copy(flow)
    copied.__dict__["slot_values"] = copy_json(flow.slot_values)
    copied.__dict__["tool_summaries"] = flow.tool_summaries.copy()
    return copied


def _slot_copy(slot: Slot) -> Slot:
    copied = shallow_copy(slot)
    copied.__dict__["value"] = copy_json(slot.value)
    return copied


def _call_copy(call: ToolCallRecord) -> ToolCallRecord:
    copied = shallow_copy(call)
    copied.__dict__["arguments"] = copy_json(call.arguments)
    copied.__dict__["result"] = copy_json(call.result)
    return copied


def _entity_copy(entity: WorkspaceEntity) -> WorkspaceEntity:
    copied = shallow_copy(entity)
    copied.__dict__["attributes"] = entity.attributes.copy()
    return copied
