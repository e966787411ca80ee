"""What a conversation is in the middle of, and everything that can happen to it."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import ActiveFlowState, FlowRecord, PendingConfirmation, Slot
from jazzmine.records.memory_base import MemoryRecord, checked_copy, memory_record, set_checked
from jazzmine.records.tool_call import ToolCallRecord, calls_section
from jazzmine.records.transition_arguments import (
    BranchChoice,
    BranchResult,
    Reply,
    SlotAnswer,
    StepResult,
)
from jazzmine.records.turn import TopicShift, TurnCache, WorkspaceEntity, merge_entities
from jazzmine.records.types import Id, Int64, Text

__all__ = ["WorkingMemory"]

logger = logging.getLogger(__name__)


@memory_record
class WorkingMemory(MemoryRecord):
    """The state of one conversation between its turns, and within one.

    The methods from `begin_turn` on are its transitions. They work in memory alone, copy what
    they are given, and return whether they changed the state. One that does not apply (no
    active flow, an unknown slot) changes nothing, logs a warning and returns False. One that
    is given what cannot be kept raises `TypeError` (no such record) or `ValidationError`
    (naming the field or the argument), and changes nothing either.

    Args:
        created_at, last_updated: Unix seconds; every change by a transition moves the second.
        status: derived from the flow and the confirmation whenever a transition changes them.
        entity_max_age_turns: an entity that was not seen for more turns than this is dropped.
        revision: counts the saves; it belongs to the store.
    """

    conversation_id: Id
    user_id: Id
    agent_id: Id
    created_at: float = field(default_factory=time.time)
    last_updated: float = field(default_factory=time.time)
    status: ConversationStatus = ConversationStatus.IDLE
    turn_number: Int64 = 0
    active_flow: ActiveFlowState | None = None
    flow_history: list[FlowRecord] = field(default_factory=list)
    pending_confirmation: PendingConfirmation | None = None
    entity_workspace: dict[Text, WorkspaceEntity] = field(default_factory=dict)
    entity_max_age_turns: Int64 = 5
    topic_history: list[TopicShift] = field(default_factory=list)
    last_agent_response: Text | None = None
    last_agent_intent: Text | None = None
    current_turn: TurnCache | None = None
    revision: Int64 = 0

    @property
    def is_in_flow(self) -> bool:
        """Whether a flow is in progress."""
        return self.active_flow is not None and self.active_flow.status.is_in_progress

    @property
    def has_pending_confirmation(self) -> bool:
        """Whether the user has been asked to confirm something and has not answered."""
        return self.pending_confirmation is not None

    @property
    def pending_slots(self) -> list[Slot]:
        """The slots that the active flow still has to ask for."""
        return self.active_flow.pending_slots if self.active_flow else []

    @property
    def current_flow_can_be_interrupted(self) -> bool:
        """Whether another flow may start now: there is none, or it is still collecting slots."""
        flow = self.active_flow
        return flow is None or flow.status is FlowStatus.COLLECTING_SLOTS

    @property
    def last_tool_result(self) -> ToolCallRecord | None:
        """The latest tool call of the turn or, if it made none, of the active flow."""
        if self.current_turn and self.current_turn.tool_calls:
            return self.current_turn.last_tool_result
        return self.active_flow.last_tool_result if self.active_flow else None

    @property
    def salient_entities(self) -> list[WorkspaceEntity]:
        """The known entities, the latest seen first."""
        entities = self.entity_workspace.values()
        return sorted(entities, key=lambda entity: entity.last_seen_turn, reverse=True)

    @property
    def topic_count(self) -> int:
        """How many times the conversation took up a topic."""
        return len(self.topic_history)

    @property
    def flows_completed_names(self) -> list[str]:
        """The names of the flows that were completed, in order."""
        completed = FlowStatus.COMPLETED.value
        return [flow.flow_name for flow in self.flow_history if flow.status == completed]

    def build_prompt_tool_sections(self) -> str:
        """Return the tool calls that a prompt shows, each once; "" if there are none.

        First the active flow's calls from before this turn, as `<completed_tool_calls>`, then
        this turn's, as `<current_turn_tool_calls>`, with an empty line between the two.
        """
        history = self.active_flow.tool_call_history if self.active_flow else []
        current = self.current_turn.tool_calls if self.current_turn else []
        sections = (
            calls_section("completed_tool_calls", _made_before(history, current)),
            calls_section("current_turn_tool_calls", current),
        )
        return "\n\n".join(section for section in sections if section)

    def begin_turn(self, turn_cache: TurnCache) -> bool:
        """Enter a turn: everything that follows from it happens in this one step.

        Entities are merged and stale ones dropped; a turn that is no continuation adds a
        `TopicShift`; an expired confirmation is dropped and the flow waiting on it cancelled;
        a cancellation cancels the flow in progress, whatever it waits for.
        """
        cache = checked_copy(turn_cache, TurnCache, "turn_cache")
        turn = cache.turn_number
        changes: dict[str, Any] = {
            "turn_number": turn,
            "current_turn": cache,
            "entity_workspace": merge_entities(
                self.entity_workspace, cache.raw_entities, turn, self.entity_max_age_turns
            ),
        }
        if not cache.is_continuation:
            changes["topic_history"] = [*self.topic_history, TopicShift(turn, cache.intent)]
        flow, confirmation = self.active_flow, self.pending_confirmation
        expired = confirmation is not None and confirmation.is_expired(turn)
        if expired:
            logger.info("%r: the confirmation expired in turn %d", self.conversation_id, turn)
            changes["pending_confirmation"] = None
        waited = expired and flow is not None and flow.status is FlowStatus.AWAITING_CONFIRMATION
        if waited or (cache.is_cancellation and self.is_in_flow):
            changes |= self._without_flow(FlowStatus.CANCELLED, turn)
        return self._changed(**changes)

    def end_turn(self, agent_response: str, agent_intent: str, topic_summary: str = "") -> bool:
        """Remember the reply, and summarise the latest topic if it has no summary yet.

        Args:
            topic_summary: the summary; the intent stands in for an empty one.
        """
        reply = Reply(agent_response, agent_intent, topic_summary)
        if self.topic_history and not self.topic_history[-1].summary:
            self.topic_history[-1].summary = reply.topic_summary or reply.agent_intent
        set_checked(
            self,
            last_agent_response=reply.agent_response,
            last_agent_intent=reply.agent_intent,
        )
        return self._touched()

    def start_flow(self, flow_state: ActiveFlowState) -> bool:
        """Make a flow the active one.

        A flow still in progress is archived as cancelled first, and its confirmation dropped;
        the log has a warning.
        """
        started = checked_copy(flow_state, ActiveFlowState, "flow_state")
        changes: dict[str, Any] = {}
        before = self.active_flow
        if before is not None:
            status = before.status
            if status.is_in_progress:
                status = FlowStatus.CANCELLED
                logger.warning(
                    "%r: the flow %r was still in progress when %r started, and is cancelled",
                    self.conversation_id,
                    before.flow_name,
                    started.flow_name,
                )
            changes = self._without_flow(status, self.turn_number)
        return self._changed(**{**changes, "active_flow": started})

    def advance_sequential_step(self, step_result: dict[str, Any]) -> bool:
        """Keep the result of the current step of the active flow, and go on to the next."""
        step = StepResult(step_result)
        if self.active_flow is None:
            return self._not_applied("advance_sequential_step", "no active flow")
        self.active_flow.current_step += 1
        self.active_flow.step_results.append(step.step_result)
        return self._touched()

    def record_branch_result(self, branch_id: str, result: Any) -> bool:
        """Keep the result of a branch of the active flow; None means that it is not done."""
        branch = BranchResult(branch_id, result)
        if self.active_flow is None:
            return self._not_applied("record_branch_result", "no active flow")
        if branch.branch_id not in self.active_flow.branch_results:
            return self._not_applied("record_branch_result", f"no branch {branch.branch_id!r}")
        self.active_flow.branch_results[branch.branch_id] = branch.result
        return self._touched()

    def set_condition_branch(self, branch: str) -> bool:
        """Keep which branch the active flow's condition led to."""
        choice = BranchChoice(branch)
        if self.active_flow is None:
            return self._not_applied("set_condition_branch", "no active flow")
        self.active_flow.condition_branch_taken = choice.branch
        return self._touched()

    def record_tool_call(self, record: ToolCallRecord) -> bool:
        """Keep a tool call in the turn and in the active flow's history.

        The copy that is kept gets its `call_index` within the turn and, if the caller gave it
        none, its `turn_number`. Before the first `begin_turn` there is only the flow to keep
        it in, and the log has a warning.
        """
        call = checked_copy(record, ToolCallRecord, "record")
        turn, flow = self.current_turn, self.active_flow
        if turn is None and flow is None:
            return self._not_applied("record_tool_call", "no turn and no active flow")
        set_checked(call, turn_number=call.turn_number or self.turn_number)
        if turn is None:
            logger.warning("%r: a tool call was recorded outside of a turn", self.conversation_id)
        else:
            set_checked(call, call_index=len(turn.tool_calls))
            turn.tool_calls.append(call)
        if flow is not None:
            flow.tool_call_history.append(checked_copy(call, ToolCallRecord, "record"))
        return self._touched()

    def register_slots(self, slots: Iterable[Slot]) -> bool:
        """Tell the active flow which slots to collect; those it knows by name stay as they are.

        If any slot is pending then, a flow that was active starts collecting; one that awaits
        a confirmation goes on waiting.
        """
        asked = [checked_copy(slot, Slot, "slots") for slot in slots]
        flow = self.active_flow
        if flow is None:
            return self._not_applied("register_slots", "no active flow")
        unknown = [slot for slot in asked if slot.name not in flow.slots]
        for slot in unknown:
            flow.slots.setdefault(slot.name, slot)
        collects = _start_collecting(flow)
        return self._changed() if unknown or collects else False

    def collect_slot(self, slot_name: str, value: Any, validation_error: str = "") -> bool:
        """Keep the answer for a slot of the active flow.

        With a `validation_error` the slot loses any earlier value and is open again. When no
        slot is pending any more, a flow that was collecting slots is active again.
        """
        answer = SlotAnswer(slot_name, value, validation_error)
        flow = self.active_flow
        slot = flow.slots.get(answer.slot_name) if flow else None
        if flow is None or slot is None:
            return self._not_applied(
                "collect_slot", f"no slot {answer.slot_name!r} in an active flow"
            )
        if answer.validation_error:
            set_checked(slot, collected=False, value=None, validation_error=answer.validation_error)
            if slot.is_pending:
                _start_collecting(flow)
        else:
            set_checked(slot, collected=True, value=answer.value, validation_error="")
            slot.collected_at_turn = self.turn_number
            if flow.status is FlowStatus.COLLECTING_SLOTS and flow.all_slots_collected:
                flow.status = FlowStatus.ACTIVE
        return self._changed()

    def request_confirmation(self, confirmation: PendingConfirmation) -> bool:
        """Wait for the user's answer; a question that was open before is replaced.

        A flow in progress waits with it. Outside of a flow the question stands by itself, and
        the conversation awaits the confirmation all the same.
        """
        question = checked_copy(confirmation, PendingConfirmation, "confirmation")
        if self.active_flow is not None and self.is_in_flow:
            self.active_flow.status = FlowStatus.AWAITING_CONFIRMATION
        return self._changed(pending_confirmation=question)

    def confirm_action(self) -> bool:
        """Take the answer as a yes: the question is settled, the flow waiting on it active."""
        flow = self.active_flow
        waits = flow is not None and flow.status is FlowStatus.AWAITING_CONFIRMATION
        if flow is not None and waits:
            flow.status = FlowStatus.ACTIVE
        elif self.pending_confirmation is None:
            return self._not_applied("confirm_action", "nothing to confirm")
        return self._changed(pending_confirmation=None)

    def complete_flow(self) -> bool:
        """Archive the active flow as completed, and drop its confirmation."""
        return self._end_flow("complete_flow", FlowStatus.COMPLETED)

    def cancel_flow(self) -> bool:
        """Archive the active flow as cancelled, and drop its confirmation."""
        return self._end_flow("cancel_flow", FlowStatus.CANCELLED)

    def fail_flow(self) -> bool:
        """Archive the active flow as failed, and drop its confirmation."""
        return self._end_flow("fail_flow", FlowStatus.FAILED)

    def _end_flow(self, transition: str, status: FlowStatus) -> bool:
        if self.active_flow is None:
            return self._not_applied(transition, "no active flow")
        return self._changed(**self._without_flow(status, self.turn_number))

    def _without_flow(self, status: FlowStatus, turn_number: int) -> dict[str, Any]:
        assert self.active_flow is not None
        return {
            "active_flow": None,
            "flow_history": [*self.flow_history, self.active_flow.ended(status, turn_number)],
            "pending_confirmation": None,
        }

    def _changed(self, **checked: Any) -> bool:
        set_checked(self, **checked)
        set_checked(self, status=_status_of(self.active_flow, self.pending_confirmation))
        return self._touched()

    def _touched(self) -> bool:
        set_checked(self, last_updated=time.time())
        return True

    def _not_applied(self, transition: str, reason: str) -> bool:
        logger.warning("%r: %s changed nothing: %s", self.conversation_id, transition, reason)
        return False


_STATUS_IN_FLOW = {
    FlowStatus.ACTIVE: ConversationStatus.IN_FLOW,
    FlowStatus.COLLECTING_SLOTS: ConversationStatus.COLLECTING_SLOTS,
    FlowStatus.AWAITING_CONFIRMATION: ConversationStatus.AWAITING_CONFIRMATION,
}


def _status_of(
    flow: ActiveFlowState | None, confirmation: PendingConfirmation | None
) -> ConversationStatus:
    if flow is not None and flow.status.is_in_progress:
        return _STATUS_IN_FLOW[flow.status]
    return ConversationStatus.AWAITING_CONFIRMATION if confirmation else ConversationStatus.IDLE


def _start_collecting(flow: ActiveFlowState) -> bool:
    starts = flow.status is FlowStatus.ACTIVE and not flow.all_slots_collected
    if starts:
        flow.status = FlowStatus.COLLECTING_SLOTS
    return starts


def _made_before(
    history: list[ToolCallRecord], current: list[ToolCallRecord]
) -> list[ToolCallRecord]:
    # A call of this turn is told by what it was recorded with, not by its turn number alone,
    # which the caller may set; the latest of two that look the same is this turn's.
    unmatched = Counter(map(_mark, current))
    before = []
    for call in reversed(history):
        if unmatched[_mark(call)] > 0:
            unmatched[_mark(call)] -= 1
        else:
            before.append(call)
    return before[::-1]


def _mark(call: ToolCallRecord) -> tuple[object, ...]:
    return call.tool_name, call.turn_number, call.call_index, call.called_at
