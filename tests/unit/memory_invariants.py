"""The rules that hold after each transition of a working memory."""

from __future__ import annotations

from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, invariant

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import ActiveFlowState, PendingConfirmation
from jazzmine.records.memory_base import MemoryRecord
from jazzmine.records.memory_copy import deep_copy
from jazzmine.records.memory_json import from_json, to_json
from jazzmine.records.working_memory import WorkingMemory
from tests.unit.memory_draws import STATUS_OF_FLOW


class Small(WorkingMemory):
    """A working memory with limits that few transitions reach."""

    max_topic_history = 3
    max_flow_history = 2
    max_entity_attributes = 4
    max_tool_call_history = 3


def mutable_parts(value: Any) -> set[int]:
    """Return the identities of all records, lists and dicts in a value."""
    if isinstance(value, MemoryRecord):
        inner = list(vars(value).values())
    elif isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, list):
        inner = value
    else:
        return set()
    return {id(value)}.union(*map(mutable_parts, inner))


def timeless(memory: WorkingMemory) -> dict[str, Any]:
    return {**memory.to_dict(), "last_updated": 0.0}


class Checked(RuleBasedStateMachine):
    """A conversation whose working memory keeps the rules below after each transition."""

    kind: type[WorkingMemory] = Small

    def __init__(self) -> None:
        super().__init__()
        self.memory = self.kind("c1", "u1", "a1")
        self.topics = 0
        self.topic_turn: int | None = None  # the turn of the latest topic
        self.flows = 0
        self.calls = 0
        self.turns: dict[str, int] = {}
        self.below: list[tuple[str, PendingConfirmation | None]] = []  # those set aside

    def in_progress(self) -> ActiveFlowState | None:
        return self.memory.active_flow if self.memory.is_in_flow else None

    @invariant()
    def the_flow_s_status_follows_from_its_slots_and_the_confirmation(self) -> None:
        flow = self.in_progress()
        if flow is None:
            return
        if flow.status is FlowStatus.AWAITING_CONFIRMATION:
            assert self.memory.pending_confirmation is not None
        else:
            collects = flow.status is FlowStatus.COLLECTING_SLOTS
            assert collects is any(slot.is_pending for slot in flow.slots.values())

    @invariant()
    def the_status_follows_from_the_flow_and_the_confirmation(self) -> None:
        flow = self.in_progress()
        if flow is not None:
            assert self.memory.status is STATUS_OF_FLOW[flow.status]
        elif self.memory.pending_confirmation is not None:
            assert self.memory.status is ConversationStatus.AWAITING_CONFIRMATION
        else:
            assert self.memory.status is ConversationStatus.IDLE

    @invariant()
    def steps_end_at_the_last(self) -> None:
        flow = self.memory.active_flow
        assert flow is None or 0 <= flow.current_step <= flow.total_steps

    @invariant()
    def nothing_grows_past_its_limit(self) -> None:
        memory, flow = self.memory, self.memory.active_flow
        assert len(memory.topic_history) <= Small.max_topic_history
        assert len(memory.flow_history) <= Small.max_flow_history
        for entity in memory.entity_workspace.values():
            assert len(entity.attributes) <= Small.max_entity_attributes
            assert memory.turn_number - entity.last_seen_turn <= memory.entity_max_age_turns
        assert flow is None or len(flow.tool_call_history) <= Small.max_tool_call_history

    @invariant()
    def all_are_counted_though_the_newest_are_kept(self) -> None:
        active = self.memory.active_flow is not None
        ended = self.flows - active - len(self.memory.suspended_flows)
        assert self.memory.topic_count == self.topics
        assert self.memory.flow_count == ended
        assert len(self.memory.flow_history) == min(ended, Small.max_flow_history)

    @invariant()
    def a_raw_result_stands_in_the_turn_alone(self) -> None:
        flow = self.memory.active_flow
        flows = [each.flow for each in self.memory.suspended_flows]
        flows += [] if flow is None else [flow]
        assert all(call.result is None for each in flows for call in each.tool_call_history)

    @invariant()
    def it_comes_back_from_a_dict_and_from_json(self) -> None:
        assert self.kind.from_dict(self.memory.to_dict()) == self.memory
        assert from_json(to_json(self.memory), self.kind) == self.memory

    @invariant()
    def a_deep_copy_shares_nothing_that_can_be_changed(self) -> None:
        copied = deep_copy(self.memory)
        assert copied == self.memory
        assert not mutable_parts(copied) & mutable_parts(self.memory)

    @invariant()
    def the_turn_s_calls_are_numbered_without_a_gap(self) -> None:
        turn = self.memory.current_turn
        indexes = [call.call_index for call in turn.tool_calls] if turn else []
        assert indexes == list(range(len(indexes)))

    @invariant()
    def a_prompt_shows_each_call_once(self) -> None:
        flow, turn = self.memory.active_flow, self.memory.current_turn
        shown = self.memory.build_prompt_tool_sections()
        kept = [*(flow.tool_call_history if flow else ()), *(turn.tool_calls if turn else ())]
        assert all(shown.count(f'"{call.tool_name}"') == 1 for call in kept)
        assert shown.count("<call ") == len({call.tool_name for call in kept})

    @invariant()
    def slots_are_kept_under_their_names(self) -> None:
        flow = self.memory.active_flow
        known = flow.slots if flow else {}
        assert all(slot.name == name for name, slot in known.items())
