"""The working memory of a conversation, and its transitions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, TypeVar

from jazzmine.records.arguments import require_text
from jazzmine.records.enums import FlowStatus
from jazzmine.records.flow import ActiveFlowState, PendingConfirmation, Slot
from jazzmine.records.flow_transitions import FlowTransitions, transition
from jazzmine.records.memory_base import checked_copy, memory_record, set_unvalidated
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TopicShift, TurnCache, merge_entities
from jazzmine.records.types import JsonObject, JsonValue, Text

__all__ = ["WorkingMemory"]

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")


@memory_record
class Arguments:
    """The arguments of transitions that are not records, so that an error names the argument.

    Each transition passes its own alone.
    """

    agent_response: Text = ""
    agent_intent: Text = ""
    topic_summary: Text = ""
    step_result: JsonObject = field(default_factory=dict)
    branch_id: Text = ""
    result: JsonValue = None
    branch: Text = ""
    slot_name: Text = ""
    value: JsonValue = None
    validation_error: Text = ""
    data: JsonObject = field(default_factory=dict)


@memory_record
class WorkingMemory(FlowTransitions):
    """The state of one conversation between its turns and within a turn.

    The methods from `begin_turn` on are its transitions. They do no I/O, copy their arguments,
    and return whether they changed the state.

    A flow in progress awaits a confirmation while the question that it waits for is open; or
    else it collects slots while one is pending; or else it is active. The conversation's status
    is that of its flow in progress; without one it awaits an open confirmation, or is idle.

    A transition that does not apply changes nothing, logs a warning and returns False; in a
    strict store it raises `NotAppliedError`. For an argument that cannot be stored it raises
    `TypeError` (not the expected record) or `ValidationError` (which names the field or the
    argument), and changes nothing.

    A turn is repeated as a whole: `begin_turn` knows it by its message, and a store's
    `update(message_id=...)` applies a message's change once. (When a store repeats a write whose
    reply was lost, it makes no transition twice.)

    The size does not grow with the number of turns: the newest `max_topic_history` topics
    and `max_flow_history` ended flows (of `max_flow_history_bytes` together), the newest
    `max_entity_attributes` attributes of an entity, and the newest `max_tool_call_history` calls of
    a flow. They are attributes of the class; a subclass may set others. The rest is limited by the
    flow's own definition (steps, branches, slots), by `entity_max_age_turns`, or replaced with the
    turn (its tool calls, the only ones with raw results).

    Attributes:
        conversation_id: the conversation that it belongs to.
        user_id: whose conversation it is.
        agent_id: the agent of the conversation.
        created_at: Unix seconds.
        last_updated: Unix seconds; every change by a transition and every save sets it.
        status: derived from the flow and the confirmation by every transition. The application
            may set `ERROR`, which lasts until the next one.
        turn_number: the number of the current turn; 0 before the first.
        active_flow: the flow in progress; None without one.
        flow_history: the records of ended flows, oldest first.
        pending_confirmation: the question that waits for its answer; None without one.
        entity_workspace: the things that were mentioned, by name.
        entity_max_age_turns: an entity that was not seen for more turns than this is dropped.
        topic_history: the topics, oldest first.
        last_agent_response: the latest reply; None before the first.
        last_agent_intent: the intent of the latest reply.
        current_turn: the data of the current turn; None before the first.
        revision: counts the saves; it belongs to the store.
        version_token: tells the save that wrote it from all others, whatever their revision; it
            belongs to the store.
        topics_dropped: how many older topics `topic_history` no longer holds.
        flows_dropped: how many older flows `flow_history` no longer holds.
        data: the application's own values, such as a cart or a draft; see `set_data`.
        suspended_flows: the flows that were set aside, the newest last.
        turns_by_message: the turns of the last messages, by their ids.
        applied_messages: the ids of the last messages whose change was made.
        confirmed: the question that a store's `confirm_action` has just confirmed, for the one
            caller that it returns this to; it is never stored.
    """

    @transition
    def begin_turn(self, turn_cache: TurnCache) -> bool:
        """Begin a turn, with all its effects on entities, topics, confirmation and flow.

        Entities are merged and stale ones dropped; a turn that is no continuation adds a
        `TopicShift`; an expired confirmation is dropped and the flow that awaits it archived as
        expired; a cancellation cancels the flow in progress, also while it awaits a confirmation,
        and drops a confirmation that belongs to no flow.

        A cache with a `message_id` and no number has the number of that message's turn, or the
        next one. A number below that of the current turn, or that another message has, does not
        apply. The same turn again replaces the turn's cache, and doubles nothing: the entities are
        those that were known before the turn, merged with the cache's, and a topic that the turn
        has begun stays the only one. Once a later turn has begun it changes nothing, also in a
        strict store.
        """
        cache = checked_copy(turn_cache, TurnCache, "turn_cache")
        begun = self.turns_by_message.get(cache.message_id)
        following = self.turn_number + 1 if cache.message_id else 0
        turn = begun or cache.turn_number or following
        shifts, cancels = not cache.is_continuation, cache.is_cancellation
        if begun and turn < self.turn_number:
            logger.info("%r: turn %d was begun before", self.conversation_id, turn)
            return False
        if turn < self.turn_number:
            reason = f"it is turn {turn}, and turn {self.turn_number} has begun"
            return self._not_applied("begin_turn", reason)
        known = self.entity_workspace
        repeated = self.current_turn if self.turn_number == turn else None
        if repeated is not None:
            if repeated.message_id not in ("", cache.message_id):
                reason = f"turn {turn} is that of message {repeated.message_id!r}"
                return self._not_applied("begin_turn", reason)
            if repeated.entities_before is not None:  # or else an earlier version began the turn
                known = repeated.entities_before
            began_topic = self.topic_history and self.topic_history[-1].turn_number == turn
            shifts = shifts and not began_topic
            cancels = cancels and not repeated.is_cancellation
        set_unvalidated(cache, turn_number=turn)
        set_unvalidated(cache, entities_before=known)
        entities = merge_entities(
            known,
            cache.raw_entities,
            turn,
            self.entity_max_age_turns,
            self.max_entity_attributes,
        )
        changes: dict[str, Any] = {
            "turn_number": turn,
            "current_turn": cache,
            "entity_workspace": entities,
        }
        if shifts:
            changes["topic_history"] = [*self.topic_history, TopicShift(turn, cache.intent)]
        if cache.message_id:
            changes["turns_by_message"] = self._with_message(cache.message_id, turn)
        changes |= self._without_declined(turn, cancels)
        return self._changed(**changes)

    @transition
    def end_turn(self, agent_response: str, agent_intent: str, topic_summary: str = "") -> bool:
        """Store the reply, and the summary of the latest topic if it has none.

        Args:
            topic_summary: the summary; if it is empty, the intent is used.
        """
        reply = Arguments(agent_response, agent_intent, topic_summary)
        if self.topic_history and not self.topic_history[-1].summary:
            summary = reply.topic_summary or reply.agent_intent
            set_unvalidated(self.topic_history[-1], summary=summary)
        return self._changed(
            last_agent_response=reply.agent_response, last_agent_intent=reply.agent_intent
        )

    @transition
    def start_flow(self, flow_state: ActiveFlowState) -> bool:
        """Make a flow the active one.

        A flow still in progress is archived as cancelled first, and its confirmation dropped;
        the log has a warning. A flow that is active already (the same `flow_id` and
        `started_at_turn`) goes on as it is. A `started_at_turn` of 0 is set to this turn.
        """
        started = checked_copy(flow_state, ActiveFlowState, "flow_state")
        if not started.started_at_turn:
            set_unvalidated(started, started_at_turn=self.turn_number)
        before = self.active_flow
        if before is not None and self.is_in_flow and before.is_same_start(started):
            logger.info("%r: the flow %r is active already", self.conversation_id, before.flow_name)
            return False
        changes: dict[str, Any] = {}
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
        started.drop_raw_results()
        started.drop_oldest_calls(self.max_tool_call_history)
        if started.current_step > started.total_steps:
            set_unvalidated(started, current_step=started.total_steps)
        return self._changed(**{**changes, "active_flow": started})

    @transition
    def advance_sequential_step(self, step_result: dict[str, Any]) -> bool:
        """Store the result of the current step of the active flow, and advance to the next.

        It does not apply if all of the flow's `total_steps` are done.
        """
        step, flow = Arguments(step_result=step_result), self.active_flow
        if flow is None:
            return self._not_applied("advance_sequential_step", "no active flow")
        if flow.current_step >= flow.total_steps:
            return self._not_applied("advance_sequential_step", f"no step after {flow.total_steps}")
        set_unvalidated(flow, current_step=flow.current_step + 1)
        flow.step_results.append(step.step_result)
        return self._changed()

    @transition
    def record_branch_result(self, branch_id: str, result: Any) -> bool:
        """Store the result of a branch that the active flow has; None: it is not done."""
        branch = Arguments(branch_id=branch_id, result=result)
        if self.active_flow is None:
            return self._not_applied("record_branch_result", "no active flow")
        if branch.branch_id not in self.active_flow.branch_results:
            return self._not_applied("record_branch_result", f"no branch {branch.branch_id!r}")
        self.active_flow.branch_results[branch.branch_id] = branch.result
        return self._changed()

    @transition
    def set_condition_branch(self, branch: str) -> bool:
        """Store which branch the condition of the active flow has chosen."""
        choice = Arguments(branch=branch)
        if self.active_flow is None:
            return self._not_applied("set_condition_branch", "no active flow")
        self.active_flow.condition_branch_taken = choice.branch
        return self._changed()

    @transition
    def record_tool_call(self, record: ToolCallRecord) -> bool:
        """Store a tool call in the turn and, without its raw result, in the flow's history.

        The stored copy gets its `call_index` within the turn and, if the caller has set none,
        its `turn_number`. Before the first `begin_turn` only the flow stores it, and a warning
        is logged.
        """
        call = checked_copy(record, ToolCallRecord, "record")
        turn, flow = self.current_turn, self.active_flow
        if turn is None and flow is None:
            return self._not_applied("record_tool_call", "no turn and no active flow")
        set_unvalidated(call, turn_number=call.turn_number or self.turn_number)
        if turn is None:
            logger.warning("%r: a tool call was recorded outside of a turn", self.conversation_id)
        else:
            set_unvalidated(call, call_index=len(turn.tool_calls))
            turn.tool_calls.append(call)
        if flow is not None:
            flow.tool_call_history.append(call.without_result())
            flow.drop_oldest_calls(self.max_tool_call_history)
        return self._changed()

    @transition
    def register_slots(self, slots: Iterable[Slot], replace: bool = False) -> bool:
        """Add slots for the active flow to collect; slots with a known name are not changed.

        Args:
            replace: whether the flow has these slots and no others from now on; a slot with a
                known name keeps its value.
        """
        if isinstance(slots, Slot | Mapping):
            raise TypeError(f"slots must be a list of Slot, not {type(slots).__name__}")
        asked = [checked_copy(slot, Slot, "slots") for slot in slots]
        flow = self.active_flow
        if flow is None:
            return self._not_applied("register_slots", "no active flow")
        if replace:
            flow.replace_slots(asked)
            return self._changed(**({} if flow.all_slots_collected else self._without_question()))
        unknown = [slot for slot in asked if slot.name not in flow.slots]
        for slot in unknown:
            flow.slots.setdefault(slot.name, slot)
        return self._changed() if unknown or flow.status is not self._flow_status() else False

    @transition
    def collect_slot(self, slot_name: str, value: Any, validation_error: str = "") -> bool:
        """Store the answer for a slot of the active flow.

        With a `validation_error` any earlier value is removed, and the slot is pending again.
        When no slot is pending any more, a flow that was collecting slots is active again. A
        slot that changes closes the question for which the flow waits: the user would confirm
        something else.
        """
        answer = Arguments(slot_name=slot_name, value=value, validation_error=validation_error)
        flow = self.active_flow
        slot = flow.slots.get(answer.slot_name) if flow else None
        if slot is None:
            reason = f"no slot {answer.slot_name!r} in an active flow"
            return self._not_applied("collect_slot", reason)
        before = (slot.collected, slot.value)
        if answer.validation_error:
            error = answer.validation_error
            set_unvalidated(slot, collected=False, value=None, validation_error=error)
        else:
            set_unvalidated(slot, collected=True, value=answer.value, validation_error="")
            set_unvalidated(slot, collected_at_turn=self.turn_number)
        is_same = before == (slot.collected, slot.value)
        return self._changed(**({} if is_same else self._without_question()))

    @transition
    def clear_slot(self, slot_name: str) -> bool:
        """Remove the value of a slot of the active flow, which is open again.

        The question for which the flow waits is closed.
        """
        name, flow = Arguments(slot_name=slot_name).slot_name, self.active_flow
        slot = flow.slots.get(name) if flow else None
        if slot is None:
            return self._not_applied("clear_slot", f"no slot {name!r} in an active flow")
        set_unvalidated(slot, collected=False, value=None, validation_error="")
        set_unvalidated(slot, collected_at_turn=0)
        return self._changed(**self._without_question())

    @transition
    def forget_entity(self, name: str) -> bool:
        """Remove an entity from those that the conversation knows."""
        if require_text("name", name) not in self.entity_workspace:
            return self._not_applied("forget_entity", f"no entity {name!r}")
        turn = self.current_turn
        if turn is not None and turn.entities_before is not None:
            set_unvalidated(turn, entities_before=_without(turn.entities_before, name))
        return self._changed(entity_workspace=_without(self.entity_workspace, name))

    @transition
    def request_confirmation(self, confirmation: PendingConfirmation) -> bool:
        """Store a question for the user to confirm, in place of an earlier one.

        A flow in progress then awaits the confirmation. Without a flow, the conversation awaits
        it. A `requested_at_turn` of 0 is set to this turn.
        """
        question = checked_copy(confirmation, PendingConfirmation, "confirmation")
        if not question.requested_at_turn:
            set_unvalidated(question, requested_at_turn=self.turn_number)
        if self.active_flow is not None and self.is_in_flow:
            set_unvalidated(self.active_flow, status=FlowStatus.AWAITING_CONFIRMATION)
        return self._changed(pending_confirmation=question)

    @transition
    def confirm_action(self, confirmation_id: str | None = None) -> bool:
        """Confirm the open question: it is dropped, and the flow that awaits it continues.

        The flow is then active, or collects slots if one is pending. An expired confirmation
        cannot be confirmed; the next `begin_turn` drops it.

        Args:
            confirmation_id: the id of the question that the user has answered; None is the open
                one, whichever it is.
        """
        confirmation = self.pending_confirmation
        if confirmation_id is not None:
            require_text("confirmation_id", confirmation_id)
        if confirmation is None:
            return self._not_applied("confirm_action", "nothing to confirm")
        if confirmation_id not in (None, confirmation.id):
            reason = f"confirmation {confirmation_id!r} is not open"
            return self._not_applied("confirm_action", reason)
        if confirmation.is_expired(self.turn_number):
            return self._not_applied("confirm_action", "the confirmation has expired")
        return self._changed(pending_confirmation=None)

    @transition
    def set_data(self, **values: Any) -> bool:
        """Merge values into `data` by key; None removes a key."""
        changed = Arguments(data={**self.data, **values}).data
        kept = {name: value for name, value in changed.items() if value is not None}
        return self._changed(data=kept)

    def _with_message(self, message_id: str, turn: int) -> dict[str, int]:
        turns = {**_without(self.turns_by_message, message_id), message_id: turn}
        return dict(list(turns.items())[-self.max_known_messages :])


def _without(values: Mapping[str, T], name: str) -> dict[str, T]:
    return {key: value for key, value in values.items() if key != name}
