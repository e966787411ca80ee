"""Random sequences of all transitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from jazzmine.records.enums import FlowStatus
from jazzmine.records.flow import ActiveFlowState, PendingConfirmation, Slot
from jazzmine.records.memory_copy import partial_copy
from jazzmine.records.memory_json import from_json, to_json
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache
from jazzmine.records.working_memory import WorkingMemory
from tests.unit.memory_draws import (
    branch_ids,
    caches,
    calls,
    flows,
    json_objects,
    json_values,
    seldom,
    slot_names,
    slots,
    texts,
)
from tests.unit.memory_invariants import Checked, Small, timeless


class Conversation(Checked):
    """Calls the transitions in any order."""

    def apply(self, transition: Callable[[WorkingMemory], bool], *, counted: bool = False) -> bool:
        """Make a transition on a copy; repeating it changes nothing unless it is counted."""
        original, before = self.memory, self.memory.to_dict()
        self.memory = partial_copy(original)
        applied = transition(self.memory)
        assert original.to_dict() == before
        assert applied or self.memory.to_dict() == before
        assert not applied or self.memory.last_updated >= before["last_updated"]
        if self.memory.flow_count > original.flow_count:  # the newest are kept
            kept = [flow["flow_id"] for flow in before["flow_history"]]
            assert self.memory.flow_history[-1].flow_id not in kept
        again = partial_copy(self.memory)
        transition(again)
        assert counted or timeless(again) == timeless(self.memory)
        return applied

    @rule(cache=caches)
    def begin_turn(self, cache: TurnCache) -> None:
        turn, question = self.memory.current_turn, self.memory.pending_confirmation
        number = cache.turn_number
        if cache.message_id:
            number = self.turns.get(cache.message_id, number or self.memory.turn_number + 1)
        repeated = turn if turn is not None and turn.turn_number == number else None
        shifted = repeated is not None and self.topic_turn == number
        applies = number >= self.memory.turn_number and (
            repeated is None or repeated.message_id in ("", cache.message_id)
        )
        cancelled = repeated is not None and repeated.is_cancellation
        flow, ended = self.memory.active_flow, self.memory.flow_count

        self.turns.update({cache.message_id: number} if applies and cache.message_id else {})
        assert self.apply(lambda memory: memory.begin_turn(cache)) is applies
        if not applies:
            return

        if not cache.is_continuation and not shifted:
            self.topics, self.topic_turn = self.topics + 1, number
        assert self.memory.turn_number == number
        cache.turn_number = number
        assert self.memory.current_turn == cache
        cancels = cache.is_cancellation and not cancelled
        expired = question is not None and question.is_expired(number)
        waited = flow is not None and flow.status is FlowStatus.AWAITING_CONFIRMATION
        gone = flow is not None and (cancels or (expired and waited))
        assert self.memory.flow_count == ended + gone
        if gone and self.below:
            self.came_back()
            return
        if cancels or expired:
            assert self.memory.pending_confirmation is None
        else:
            assert self.memory.pending_confirmation == question
        assert (self.memory.active_flow is None) == (flow is None or gone)

    @rule(intents=st.lists(texts, min_size=2, max_size=6))
    def shift_topics(self, intents: list[str]) -> None:
        for intent in intents:
            number = self.memory.turn_number + 1
            self.begin_turn(TurnCache(number, intent=intent, is_continuation=False))

    def came_back(self) -> None:
        """The flow that was set aside last is the active one again."""
        flow, question = self.below.pop()
        assert self.memory.active_flow is not None
        assert self.memory.active_flow.flow_id == flow
        if question is None:
            return
        if question.is_expired(self.memory.turn_number):
            assert self.memory.active_flow.status is not FlowStatus.AWAITING_CONFIRMATION
        else:
            assert self.memory.pending_confirmation == question

    @rule()
    def suspend_flow(self) -> None:
        flow, question = self.in_progress(), self.memory.pending_confirmation

        applied = self.apply(lambda memory: memory.suspend_flow())

        assert applied is (flow is not None)
        if flow is not None:
            waited = flow.status is FlowStatus.AWAITING_CONFIRMATION
            self.below.append((flow.flow_id, question if waited else None))
            assert self.memory.active_flow is None
            assert not waited or self.memory.pending_confirmation is None
            del self.below[: -Small.max_suspended_flows]

    @rule()
    def resume_flow(self) -> None:
        applies = self.in_progress() is None and bool(self.below)

        assert self.apply(lambda memory: memory.resume_flow()) is applies

        if applies:
            self.came_back()

    @rule(name=slot_names)
    def clear_slot(self, name: str) -> None:
        if self.apply(lambda memory: memory.clear_slot(name)):
            flow = self.memory.active_flow
            assert flow is not None
            assert (flow.slots[name].collected, flow.slots[name].value) == (False, None)

    @rule(asked=st.lists(slots, max_size=3))
    def replace_slots(self, asked: list[Slot]) -> None:
        flow = self.memory.active_flow
        before = dict(flow.collected_slot_values) if flow else {}

        if self.apply(lambda memory: memory.register_slots(asked, replace=True)):
            assert self.memory.active_flow is not None
            after, names = self.memory.active_flow.slots, {slot.name for slot in asked}
            assert {*after} == names
            kept = {name: slot.value for name, slot in after.items() if slot.collected}
            assert kept == {name: value for name, value in before.items() if name in names}

    @rule(name=st.sampled_from(["Ada", "Bob"]))
    def forget_entity(self, name: str) -> None:
        self.apply(lambda memory: memory.forget_entity(name), counted=False)
        assert name not in self.memory.entity_workspace

    @precondition(lambda self: self.memory.current_turn is not None)
    @rule()
    def begin_the_turn_again(self) -> None:
        assert self.memory.current_turn is not None
        cache = TurnCache.from_dict({**self.memory.current_turn.to_dict(), "tool_calls": []})
        before = self.memory

        self.apply(lambda memory: memory.begin_turn(cache))

        assert self.memory.topic_history == before.topic_history
        # One that was forgotten may be mentioned again.
        for name, entity in before.entity_workspace.items():
            assert self.memory.entity_workspace[name].mention_count == entity.mention_count

    @rule(response=texts, intent=texts, summary=texts)
    def end_turn(self, response: str, intent: str, summary: str) -> None:
        self.apply(lambda memory: memory.end_turn(response, intent, summary))

    @rule(flow=flows)
    def start_flow(self, flow: ActiveFlowState) -> None:
        flow.flow_id = f"f{self.flows}"
        for call in flow.tool_call_history:
            self.name(call)

        assert self.apply(lambda memory: memory.start_flow(flow))

        self.flows += 1

    @rule()
    def start_the_flow_again(self) -> None:
        flow = self.in_progress()
        if flow is not None and flow.started_at_turn:
            again = ActiveFlowState(flow.flow_id, flow.flow_name, flow.flow_type)
            again.started_at_turn = flow.started_at_turn
            assert not self.apply(lambda memory: memory.start_flow(again))

    @rule(result=json_objects)
    def advance_sequential_step(self, result: dict[str, Any]) -> None:
        flow = self.memory.active_flow
        done = flow is None or flow.current_step == flow.total_steps

        applied = self.apply(lambda memory: memory.advance_sequential_step(result), counted=True)

        assert applied is not done

    @rule(branch_id=branch_ids, result=json_values)
    def record_branch_result(self, branch_id: str, result: Any) -> None:
        self.apply(lambda memory: memory.record_branch_result(branch_id, result))

    @rule(branch=texts)
    def set_condition_branch(self, branch: str) -> None:
        if self.apply(lambda memory: memory.set_condition_branch(branch)):
            assert self.memory.active_flow is not None
            assert self.memory.active_flow.condition_branch_taken == branch

    @rule(recorded=st.lists(calls, min_size=1, max_size=4))
    def record_tool_calls(self, recorded: list[ToolCallRecord]) -> None:
        for call in recorded:
            self.record_tool_call(call)

    def record_tool_call(self, call: ToolCallRecord) -> None:
        self.name(call)

        self.apply(lambda memory: memory.record_tool_call(call), counted=True)

        flow = self.memory.active_flow
        if flow is not None:
            assert flow.tool_call_history[-1].tool_name == call.tool_name
        if self.memory.current_turn is not None:
            assert self.memory.last_tool_result is not None
            assert self.memory.last_tool_result.result == call.result

    def name(self, call: ToolCallRecord) -> None:
        """Return a name that no other call has."""
        call.tool_name = f"tool-{self.calls}."
        self.calls += 1

    @rule(asked=st.lists(slots, max_size=3))
    def register_slots(self, asked: list[Slot]) -> None:
        self.apply(lambda memory: memory.register_slots(asked))

    @rule(name=slot_names, value=json_values, error=st.sampled_from(["", "", "wrong"]))
    def collect_slot(self, name: str, value: Any, error: str) -> None:
        flow = self.in_progress()
        waits = flow is not None and flow.status is FlowStatus.AWAITING_CONFIRMATION
        slot = flow.slots.get(name) if flow else None
        before = slot and (slot.collected, slot.value)

        self.apply(lambda memory: memory.collect_slot(name, value, error))

        now = self.memory.active_flow.slots[name] if slot and self.memory.active_flow else None
        if waits and now is not None and before != (now.collected, now.value):
            assert self.memory.pending_confirmation is None

    @rule(
        payload=json_objects,
        turns_ago=seldom,
        timeout_turns=st.sampled_from([1, 3, 3, 20]),
    )
    def request_confirmation(
        self, payload: dict[str, Any], turns_ago: int, timeout_turns: int
    ) -> None:
        turn = self.memory.turn_number - turns_ago
        asked = PendingConfirmation("f", "sure?", payload, turn, timeout_turns=timeout_turns)
        waits = self.memory.is_in_flow

        assert self.apply(lambda memory: memory.request_confirmation(asked))

        flow = self.in_progress()
        assert (flow is not None) is waits
        assert flow is None or flow.status is FlowStatus.AWAITING_CONFIRMATION
        asked.requested_at_turn = turn or self.memory.turn_number
        assert self.memory.pending_confirmation == asked

    @rule(flow=flows, asked=st.lists(slots, min_size=1, max_size=2))
    def start_a_flow_that_waits(self, flow: ActiveFlowState, asked: list[Slot]) -> None:
        self.start_flow(flow)
        self.register_slots(asked)
        self.request_confirmation({}, 0, 3)

    @rule()
    def confirm_action(self) -> None:
        question = self.memory.pending_confirmation
        open_ = question is not None and not question.is_expired(self.memory.turn_number)

        other = self.apply(lambda memory: memory.confirm_action("another"))
        applied = self.apply(
            lambda memory: memory.confirm_action(question.id if question else None)
        )

        assert not other
        assert applied is open_
        flow = self.in_progress()
        if applied and flow is not None:
            assert flow.status is not FlowStatus.AWAITING_CONFIRMATION

    @rule(ending=st.sampled_from(["complete_flow", "fail_flow", "cancel_flow"]))
    def end_flow(self, ending: str) -> None:
        flow, question = self.memory.active_flow, self.memory.pending_confirmation

        assert not self.apply(lambda memory: bool(getattr(memory, ending)("another")))
        repeats = not self.below
        applied = self.apply(lambda memory: bool(getattr(memory, ending)()), counted=not repeats)

        declined = ending == "cancel_flow" and question is not None
        assert applied is (flow is not None or declined)
        if flow is not None and self.below:
            self.came_back()
            return
        assert self.memory.active_flow is None
        kept = self.memory.pending_confirmation
        if applied and ending == "cancel_flow":
            assert kept is None
        elif applied and kept is not None:
            # A question of no flow stays open.
            assert flow is not None
            assert kept == question
            assert kept.flow_id != flow.flow_id

    @rule()
    def store_and_read(self) -> None:
        self.memory = from_json(to_json(self.memory), self.kind)
