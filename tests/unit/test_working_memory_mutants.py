"""Random sequences of transitions detect working memories with deliberate defects."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import ActiveFlowState, PendingConfirmation
from jazzmine.records.memory_base import set_unvalidated
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache
from jazzmine.records.working_memory import WorkingMemory
from tests.mutants import run_until_it_fails
from tests.unit.memory_invariants import Small
from tests.unit.memory_machine import Conversation


class ConfirmsWhatHasExpired(Small):
    def confirm_action(self, confirmation_id: str | None = None) -> bool:
        question = self.pending_confirmation
        if question is not None and confirmation_id in (None, question.id):
            lasting = PendingConfirmation.from_dict({**question.to_dict(), "timeout_turns": 2**60})
            set_unvalidated(self, pending_confirmation=lasting)
        return super().confirm_action(confirmation_id)


class GoesOnWithAnOpenSlot(Small):
    def confirm_action(self, confirmation_id: str | None = None) -> bool:
        applied = super().confirm_action(confirmation_id)
        if applied and self.active_flow is not None:
            self.active_flow.status = FlowStatus.ACTIVE
            self.status = ConversationStatus.IN_FLOW
        return applied


class CannotDeclineOutsideOfAFlow(Small):
    def cancel_flow(self, flow_id: str | None = None) -> bool:
        return self.active_flow is not None and super().cancel_flow(flow_id)


class KeepsAQuestionThatATurnDeclines(Small):
    def begin_turn(self, turn_cache: TurnCache) -> bool:
        question, flow = self.pending_confirmation, self.active_flow
        applied = super().begin_turn(turn_cache)
        if applied and question is not None and flow is None:
            self.request_confirmation(question)
        return applied


class LeavesTheFlowOfAnExpiredQuestion(Small):
    def begin_turn(self, turn_cache: TurnCache) -> bool:
        flow, ended, dropped = self.active_flow, self.flow_history, self.flows_dropped
        applied = super().begin_turn(turn_cache)
        if self.active_flow is None and flow is not None and not turn_cache.is_cancellation:
            set_unvalidated(self, active_flow=flow, flow_history=ended, flows_dropped=dropped)
            self._changed()
        return applied


class StepsBeyondTheLast(Small):
    def advance_sequential_step(self, step_result: dict[str, Any]) -> bool:
        if self.active_flow is not None:
            self.active_flow.total_steps += 1
        applied = super().advance_sequential_step(step_result)
        if self.active_flow is not None:
            self.active_flow.total_steps -= 1
        return applied


class StartsBeyondTheLast(Small):
    def start_flow(self, flow_state: ActiveFlowState) -> bool:
        applied = super().start_flow(flow_state)
        if applied and self.active_flow is not None:
            self.active_flow.current_step = flow_state.current_step
        return applied


class MentionsTwice(Small):
    def begin_turn(self, turn_cache: TurnCache) -> bool:
        turn = self.current_turn
        if turn is not None:
            without_entities = TurnCache.from_dict({**turn.to_dict(), "entities_before": None})
            set_unvalidated(self, current_turn=without_entities)
        applied = super().begin_turn(turn_cache)
        if not applied:
            set_unvalidated(self, current_turn=turn)
        return applied


class ShiftsTwice(Small):
    def begin_turn(self, turn_cache: TurnCache) -> bool:
        if self.topic_history:
            self.topic_history[-1].turn_number -= 1
        return super().begin_turn(turn_cache)


class StartsTheSameFlowTwice(Small):
    def start_flow(self, flow_state: ActiveFlowState) -> bool:
        if self.active_flow is not None and self.active_flow.flow_id == flow_state.flow_id:
            self.active_flow = None
        return super().start_flow(flow_state)


class ForgetsAFlowInProgress(Small):
    def start_flow(self, flow_state: ActiveFlowState) -> bool:
        self.active_flow = None
        return super().start_flow(flow_state)


class KeepsAllTopics(Small):
    max_topic_history = 1_000


class KeepsAllFlows(Small):
    max_flow_history = 1_000


class KeepsAllAttributes(Small):
    max_entity_attributes = 1_000


class KeepsAllCalls(Small):
    max_tool_call_history = 1_000


class KeepsTheOldestFlows(Small):
    def _changed(self, **validated: Any) -> bool:
        before = validated.get("flow_history", self.flow_history)
        applied = super()._changed(**validated)
        set_unvalidated(self, flow_history=before[: len(self.flow_history)])
        return applied


class KeepsTheOldestCalls(Small):
    def record_tool_call(self, record: ToolCallRecord) -> bool:
        before = [*self.active_flow.tool_call_history] if self.active_flow else []
        applied = super().record_tool_call(record)
        if self.active_flow is not None and len(before) == self.max_tool_call_history:
            set_unvalidated(self.active_flow, tool_call_history=before)
        return applied


class DoesNotCountWhatItDrops(Small):
    def begin_turn(self, turn_cache: TurnCache) -> bool:
        applied = super().begin_turn(turn_cache)
        self.topics_dropped = 0
        return applied


class KeepsRawResultsInTheFlow(Small):
    def record_tool_call(self, record: ToolCallRecord) -> bool:
        applied = super().record_tool_call(record)
        if self.active_flow is not None and applied:
            self.active_flow.tool_call_history[-1].result = record.result
        return applied


class StartsWithRawResults(Small):
    def start_flow(self, flow_state: ActiveFlowState) -> bool:
        applied = super().start_flow(flow_state)
        if applied and self.active_flow is not None:
            self.active_flow.tool_call_history = flow_state.tool_call_history
        return applied


class DropsTheRawResultOfTheTurn(Small):
    def record_tool_call(self, record: ToolCallRecord) -> bool:
        return super().record_tool_call(record.without_result())


class ForgetsTheStatus(Small):
    def register_slots(self, slots: Any, replace: bool = False) -> bool:
        before = self.status
        applied = super().register_slots(slots, replace)
        set_unvalidated(self, status=before)
        return applied


class CountsAMessageTwice(Small):
    def begin_turn(self, turn_cache: TurnCache) -> bool:
        turns = self.turns_by_message
        set_unvalidated(self, turns_by_message={})
        applied = super().begin_turn(turn_cache)
        set_unvalidated(self, turns_by_message={**turns, **self.turns_by_message})
        return applied


class LeavesTheQuestionOfAChangedSlotOpen(Small):
    def _without_question(self) -> dict[str, Any]:
        return {}


class CompletesAnotherFlow(Small):
    def complete_flow(self, flow_id: str | None = None) -> bool:
        return super().complete_flow()


class ConfirmsAnotherQuestion(Small):
    def confirm_action(self, confirmation_id: str | None = None) -> bool:
        return super().confirm_action()


# Each with a part of the assertion that its defect breaks, or of one of two.
MUTANTS: dict[type[WorkingMemory], str] = {
    ConfirmsWhatHasExpired: "applied is open_",
    GoesOnWithAnOpenSlot: "collects is any(slot.is_pending",
    CannotDeclineOutsideOfAFlow: "applied is (flow is not None or declined)",
    KeepsAQuestionThatATurnDeclines: "self.memory.pending_confirmation is None",
    LeavesTheFlowOfAnExpiredQuestion: "self.memory.flow_count == ended + gone",
    StepsBeyondTheLast: "applied is not done",
    StartsBeyondTheLast: "flow.current_step <= flow.total_steps",
    MentionsTwice: "timeless(again)",
    ShiftsTwice: "timeless(again)",
    StartsTheSameFlowTwice: "memory.start_flow(again)",
    ForgetsAFlowInProgress: "self.memory.flow_count == ended",
    KeepsAllTopics: "len(memory.topic_history)",
    KeepsAllFlows: "len(self.memory.flow_history)",
    KeepsAllAttributes: "len(entity.attributes)",
    KeepsAllCalls: "len(flow.tool_call_history)",
    KeepsTheOldestFlows: "flow_history[-1].flow_id not in kept",
    KeepsTheOldestCalls: "tool_call_history[-1].tool_name == call.tool_name",
    DoesNotCountWhatItDrops: "self.memory.topic_count == self.topics",
    KeepsRawResultsInTheFlow: "call.result is None",
    StartsWithRawResults: "call.result is None",
    DropsTheRawResultOfTheTurn: "last_tool_result.result == call.result",
    ForgetsTheStatus: "self.memory.status is STATUS_OF_FLOW[flow.status]",
    CountsAMessageTwice: (
        "timeless(again) / memory.begin_turn(cache)) is applies / memory.turn_number == number"
    ),
    LeavesTheQuestionOfAChangedSlotOpen: "self.memory.pending_confirmation is None",
    CompletesAnotherFlow: 'getattr(memory, ending)("another") / timeless(again)',
    ConfirmsAnotherQuestion: "not other",
}


@pytest.mark.parametrize(
    ("broken", "assertion"), MUTANTS.items(), ids=[broken.__name__ for broken in MUTANTS]
)
def test_the_rules_catch_a_working_memory_that(broken: type[WorkingMemory], assertion: str) -> None:
    class BrokenConversation(Conversation):
        kind = broken

    with pytest.raises(AssertionError) as failure:
        run_until_it_fails(BrokenConversation)

    broken_rule = str(failure.traceback[-1].statement)
    assert any(part in broken_rule for part in assertion.split(" / ")), broken_rule
