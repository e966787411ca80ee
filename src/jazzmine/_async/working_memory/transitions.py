"""The transitions of working memory, as methods of a store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jazzmine._async.operation import operation
from jazzmine._async.store import Store
from jazzmine._async.working_memory.backend import WorkingMemoryBackend
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
    async def _update(
        self, conversation_id: str, transition: Callable[[WorkingMemory], bool]
    ) -> WorkingMemory:
        """Make a transition, and return the new state."""

    @operation()
    async def begin_turn(self, conversation_id: str, turn_cache: TurnCache) -> WorkingMemory:
        """Enter a turn; see `WorkingMemory.begin_turn`."""
        return await self._update(conversation_id, lambda wm: wm.begin_turn(turn_cache))

    @operation()
    async def end_turn(
        self, conversation_id: str, agent_response: str, agent_intent: str, topic_summary: str = ""
    ) -> WorkingMemory:
        """Remember the reply; see `WorkingMemory.end_turn`."""
        return await self._update(
            conversation_id, lambda wm: wm.end_turn(agent_response, agent_intent, topic_summary)
        )

    @operation()
    async def start_flow(self, conversation_id: str, flow_state: ActiveFlowState) -> WorkingMemory:
        """Make a flow the active one; see `WorkingMemory.start_flow`."""
        return await self._update(conversation_id, lambda wm: wm.start_flow(flow_state))

    @operation()
    async def suspend_flow(self, conversation_id: str) -> WorkingMemory:
        """Set the flow in progress aside; see `WorkingMemory.suspend_flow`."""
        return await self._update(conversation_id, lambda wm: wm.suspend_flow())

    @operation()
    async def resume_flow(self, conversation_id: str, flow_id: str | None = None) -> WorkingMemory:
        """Go on with a flow that was set aside; see `WorkingMemory.resume_flow`."""
        return await self._update(conversation_id, lambda wm: wm.resume_flow(flow_id))

    @operation()
    async def advance_sequential_step(
        self, conversation_id: str, step_result: dict[str, Any]
    ) -> WorkingMemory:
        """Finish a step of the flow; see `WorkingMemory.advance_sequential_step`."""
        return await self._update(
            conversation_id, lambda wm: wm.advance_sequential_step(step_result)
        )

    @operation()
    async def record_branch_result(
        self, conversation_id: str, branch_id: str, result: Any
    ) -> WorkingMemory:
        """Finish a branch of the flow; see `WorkingMemory.record_branch_result`."""
        return await self._update(
            conversation_id, lambda wm: wm.record_branch_result(branch_id, result)
        )

    @operation()
    async def set_condition_branch(self, conversation_id: str, branch: str) -> WorkingMemory:
        """Keep where the flow's condition led; see `WorkingMemory.set_condition_branch`."""
        return await self._update(conversation_id, lambda wm: wm.set_condition_branch(branch))

    @operation()
    async def record_tool_call(self, conversation_id: str, record: ToolCallRecord) -> WorkingMemory:
        """Keep a tool call; see `WorkingMemory.record_tool_call`."""
        return await self._update(conversation_id, lambda wm: wm.record_tool_call(record))

    @operation()
    async def register_slots(
        self, conversation_id: str, slots: Iterable[Slot], replace: bool = False
    ) -> WorkingMemory:
        """Say what the flow is to ask for; see `WorkingMemory.register_slots`."""
        if isinstance(slots, Iterator):
            slots = list(slots)  # it can be read only once
        return await self._update(conversation_id, lambda wm: wm.register_slots(slots, replace))

    @operation()
    async def collect_slot(
        self, conversation_id: str, slot_name: str, value: Any, validation_error: str = ""
    ) -> WorkingMemory:
        """Keep the answer for a slot; see `WorkingMemory.collect_slot`."""
        return await self._update(
            conversation_id, lambda wm: wm.collect_slot(slot_name, value, validation_error)
        )

    @operation()
    async def clear_slot(self, conversation_id: str, slot_name: str) -> WorkingMemory:
        """Open a slot again; see `WorkingMemory.clear_slot`."""
        return await self._update(conversation_id, lambda wm: wm.clear_slot(slot_name))

    @operation()
    async def forget_entity(self, conversation_id: str, name: str) -> WorkingMemory:
        """Remove an entity; see `WorkingMemory.forget_entity`."""
        return await self._update(conversation_id, lambda wm: wm.forget_entity(name))

    @operation()
    async def request_confirmation(
        self, conversation_id: str, confirmation: PendingConfirmation
    ) -> WorkingMemory:
        """Wait for the user's yes; see `WorkingMemory.request_confirmation`."""
        return await self._update(conversation_id, lambda wm: wm.request_confirmation(confirmation))

    @operation()
    async def confirm_action(
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

        memory = await self._update(conversation_id, confirm)
        set_unvalidated(memory, confirmed=None if question is None else deep_copy(question))
        return memory

    @operation()
    async def complete_flow(
        self, conversation_id: str, flow_id: str | None = None
    ) -> WorkingMemory:
        """Archive the flow as completed; see `WorkingMemory.complete_flow`."""
        return await self._update(conversation_id, lambda wm: wm.complete_flow(flow_id))

    @operation()
    async def cancel_flow(self, conversation_id: str, flow_id: str | None = None) -> WorkingMemory:
        """Archive the flow as cancelled; see `WorkingMemory.cancel_flow`."""
        return await self._update(conversation_id, lambda wm: wm.cancel_flow(flow_id))

    @operation()
    async def fail_flow(self, conversation_id: str, flow_id: str | None = None) -> WorkingMemory:
        """Archive the flow as failed; see `WorkingMemory.fail_flow`."""
        return await self._update(conversation_id, lambda wm: wm.fail_flow(flow_id))

    @operation()
    async def set_data(self, conversation_id: str, **values: Any) -> WorkingMemory:
        """Merge values into the application's own; see `WorkingMemory.set_data`."""
        return await self._update(conversation_id, lambda wm: wm.set_data(**values))
