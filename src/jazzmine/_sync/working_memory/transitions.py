"""The transitions of working memory, as methods of a store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jazzmine._sync.operation import operation
from jazzmine._sync.store import Store
from jazzmine._sync.working_memory.backend import WorkingMemoryBackend
from jazzmine.records.flow import ActiveFlowState, PendingConfirmation, Slot
from jazzmine.records.memory_base import set_unvalidated
from jazzmine.records.memory_copy import deep_copy
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["TransitionMethods"]


class TransitionMethods(Store[WorkingMemoryBackend]):
    """Each is the method of `WorkingMemory` of the same name, made on what is stored."""

    @abstractmethod
    def _update(
        self, conversation_id: str, transition: Callable[[WorkingMemory], bool]
    ) -> WorkingMemory:
        """Make a transition, and return the new state."""

    @operation()
    def begin_turn(self, conversation_id: str, turn_cache: TurnCache) -> WorkingMemory:
        """Enter a turn; see `WorkingMemory.begin_turn`."""
        return self._update(conversation_id, lambda wm: wm.begin_turn(turn_cache))

    @operation()
    def end_turn(
        self, conversation_id: str, agent_response: str, agent_intent: str, topic_summary: str = ""
    ) -> WorkingMemory:
        """Remember the reply; see `WorkingMemory.end_turn`."""
        return self._update(
            conversation_id, lambda wm: wm.end_turn(agent_response, agent_intent, topic_summary)
        )

    @operation()
    def start_flow(self, conversation_id: str, flow_state: ActiveFlowState) -> WorkingMemory:
        """Make a flow the active one; see `WorkingMemory.start_flow`."""
        return self._update(conversation_id, lambda wm: wm.start_flow(flow_state))

    @operation()
    def suspend_flow(self, conversation_id: str) -> WorkingMemory:
        """Set the flow in progress aside; see `WorkingMemory.suspend_flow`."""
        return self._update(conversation_id, lambda wm: wm.suspend_flow())

    @operation()
    def resume_flow(self, conversation_id: str, flow_id: str | None = None) -> WorkingMemory:
        """Go on with a flow that was set aside; see `WorkingMemory.resume_flow`."""
        return self._update(conversation_id, lambda wm: wm.resume_flow(flow_id))

    @operation()
    def advance_sequential_step(
        self, conversation_id: str, step_result: dict[str, Any]
    ) -> WorkingMemory:
        """Finish a step of the flow; see `WorkingMemory.advance_sequential_step`."""
        return self._update(
            conversation_id, lambda wm: wm.advance_sequential_step(step_result)
        )

    @operation()
    def record_branch_result(
        self, conversation_id: str, branch_id: str, result: Any
    ) -> WorkingMemory:
        """Finish a branch of the flow; see `WorkingMemory.record_branch_result`."""
        return self._update(
            conversation_id, lambda wm: wm.record_branch_result(branch_id, result)
        )

    @operation()
    def set_condition_branch(self, conversation_id: str, branch: str) -> WorkingMemory:
        """Keep where the flow's condition led; see `WorkingMemory.set_condition_branch`."""
        return self._update(conversation_id, lambda wm: wm.set_condition_branch(branch))

    @operation()
    def record_tool_call(self, conversation_id: str, record: ToolCallRecord) -> WorkingMemory:
        """Keep a tool call; see `WorkingMemory.record_tool_call`."""
        return self._update(conversation_id, lambda wm: wm.record_tool_call(record))

    @operation()
    def register_slots(
        self, conversation_id: str, slots: Iterable[Slot], replace: bool = False
    ) -> WorkingMemory:
        """Say what the flow is to ask for; see `WorkingMemory.register_slots`."""
        if isinstance(slots, Iterator):
            slots = list(slots)  # it can be read only once
        return self._update(conversation_id, lambda wm: wm.register_slots(slots, replace))

    @operation()
    def collect_slot(
        self, conversation_id: str, slot_name: str, value: Any, validation_error: str = ""
    ) -> WorkingMemory:
        """Keep the answer for a slot; see `WorkingMemory.collect_slot`."""
        return self._update(
            conversation_id, lambda wm: wm.collect_slot(slot_name, value, validation_error)
        )

    @operation()
    def clear_slot(self, conversation_id: str, slot_name: str) -> WorkingMemory:
        """Open a slot again; see `WorkingMemory.clear_slot`."""
        return self._update(conversation_id, lambda wm: wm.clear_slot(slot_name))

    @operation()
    def forget_entity(self, conversation_id: str, name: str) -> WorkingMemory:
        """Remove an entity; see `WorkingMemory.forget_entity`."""
        return self._update(conversation_id, lambda wm: wm.forget_entity(name))

    @operation()
    def request_confirmation(
        self, conversation_id: str, confirmation: PendingConfirmation
    ) -> WorkingMemory:
        """Wait for the user's yes; see `WorkingMemory.request_confirmation`."""
        return self._update(conversation_id, lambda wm: wm.request_confirmation(confirmation))

    @operation()
    def confirm_action(
        self, conversation_id: str, confirmation_id: str | None = None
    ) -> WorkingMemory:
        """Take the user's yes; see `WorkingMemory.confirm_action`.

        Returns:
            The working memory; its `confirmed` is the question that this very call has confirmed,
            with its payload, and None if it does not apply: of two callers only one has it.
        """
        question: PendingConfirmation | None = None

        def confirm(wm: WorkingMemory) -> bool:
            nonlocal question
            open_question, question = wm.pending_confirmation, None
            applied = wm.confirm_action(confirmation_id)
            question = open_question if applied else None
            return applied

        memory = self._update(conversation_id, confirm)
        set_unvalidated(memory, confirmed=None if question is None else deep_copy(question))
        return memory

    @operation()
    def complete_flow(
        self, conversation_id: str, flow_id: str | None = None
    ) -> WorkingMemory:
        """Archive the flow as completed; see `WorkingMemory.complete_flow`."""
        return self._update(conversation_id, lambda wm: wm.complete_flow(flow_id))

    @operation()
    def cancel_flow(self, conversation_id: str, flow_id: str | None = None) -> WorkingMemory:
        """Archive the flow as cancelled; see `WorkingMemory.cancel_flow`."""
        return self._update(conversation_id, lambda wm: wm.cancel_flow(flow_id))

    @operation()
    def fail_flow(self, conversation_id: str, flow_id: str | None = None) -> WorkingMemory:
        """Archive the flow as failed; see `WorkingMemory.fail_flow`."""
        return self._update(conversation_id, lambda wm: wm.fail_flow(flow_id))

    @operation()
    def set_data(self, conversation_id: str, **values: Any) -> WorkingMemory:
        """Merge values into the application's own; see `WorkingMemory.set_data`."""
        return self._update(conversation_id, lambda wm: wm.set_data(**values))
