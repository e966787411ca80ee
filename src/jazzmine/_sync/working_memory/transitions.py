"""Changes of a working memory by functions and transitions, as methods of a store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from threading import get_ident
from typing import Any

from jazzmine._sync.operation import operation
from jazzmine._sync.working_memory.updates import Updates
from jazzmine.errors import NotAppliedError, NotFoundError
from jazzmine.process import UPDATING
from jazzmine.records.arguments import optional_id, require_id
from jazzmine.records.flow import ActiveFlowState, PendingConfirmation, Slot
from jazzmine.records.flow_transitions import STRICT
from jazzmine.records.memory_base import checked_copy, set_unvalidated, with_class
from jazzmine.records.memory_copy import confirmation_copy, deep_copy, partial_copy
from jazzmine.records.stored_memory import Data, Stored
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache
from jazzmine.records.working_memory import WorkingMemory

logger: logging.Logger = logging.getLogger(__name__)


class TransitionMethods(Updates):
    """The methods that change a working memory by a function or a transition.

    Each transition is the method of `WorkingMemory` of the same name, made on what is stored.
    """

    # Any change

    @operation()
    def update(
        self,
        conversation_id: str,
        transition: Callable[[WorkingMemory], bool | None],
        message_id: str | None = None,
    ) -> WorkingMemory:
        """Change a conversation's working memory by a function, in one step.

        Args:
            transition: changes the working memory that it is given, by its methods or in place;
                it returns False to leave it as it was. It may be called several times, with what
                is stored then, perhaps in another thread: so it must have no other effect, call
                no store, and take no time.
            message_id: the message of the user that it belongs to; its change is made once,
                however often the call is repeated with one of the last 16 messages. Another
                function for the same message needs an id of its own: it would not be called.

        Raises:
            ValidationError: it has set a value that cannot be stored; nothing was changed.
            RuntimeError: it has called a store.
        """

        def decide(stored: Stored) -> Data:
            before = found(conversation_id, stored)
            if message_id in before.applied_messages:
                return before
            memory = self._lent(before)
            UPDATING.add(get_ident())
            try:
                changed = transition(memory)
            finally:
                UPDATING.discard(get_ident())
            if changed is not None and not isinstance(changed, bool):
                raise TypeError(
                    f"transition must return None or a bool, not {type(changed).__name__}: it is a"
                    " plain function, and what waits belongs into locked()"
                )
            return before if changed is False else self._given_back(memory, before, message_id)

        require_id("conversation_id", conversation_id)
        optional_id("message_id", message_id)
        memory, _ = self._change(conversation_id, decide)
        assert isinstance(memory, WorkingMemory)
        return deep_copy(memory)

    def _update(
        self, conversation_id: str, transition: Callable[[WorkingMemory], bool]
    ) -> WorkingMemory:
        refusal: NotAppliedError | None = None

        def decide(stored: Stored) -> Data:
            nonlocal refusal
            before = found(conversation_id, stored)
            memory = partial_copy(before)
            vars(memory)[STRICT] = True
            try:
                applied, refusal = transition(memory), None
            except NotAppliedError as error:
                applied, refusal = False, error
            del vars(memory)[STRICT]
            set_unvalidated(memory, revision=memory.revision + 1)
            return memory if applied else before

        require_id("conversation_id", conversation_id)
        memory, _ = self._change(conversation_id, decide)
        if refusal is not None:
            if self._config.strict:
                raise refusal
            logger.warning("%s", refusal)
        assert isinstance(memory, WorkingMemory)
        return deep_copy(memory)

    # What callers change in place

    def _lent(self, stored: WorkingMemory) -> WorkingMemory:
        """Return a copy for a caller to change."""
        memory = deep_copy(stored)
        if self._config.strict:
            vars(memory)[STRICT] = True
        return memory

    def _given_back(
        self, memory: WorkingMemory, before: WorkingMemory, message_id: str | None = None
    ) -> WorkingMemory:
        """Return what a caller has made of a copy; it is validated, as it was changed in place."""
        changed = with_class(checked_copy(memory, WorkingMemory, "wm"), self.memory_type)
        if changed.conversation_id != before.conversation_id:
            raise ValueError(
                f"conversation {before.conversation_id!r} was given another conversation_id"
            )
        set_unvalidated(changed, revision=before.revision + 1, created_at=before.created_at)
        if message_id is not None:
            applied = [*before.applied_messages, message_id][-changed.max_known_messages :]
            set_unvalidated(changed, applied_messages=applied)
        changed.derive_statuses()
        return changed

    # Transitions

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
        set_unvalidated(memory, confirmed=confirmation_copy(question))
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


def found(conversation_id: str, stored: Stored) -> WorkingMemory:
    """Return the working memory that is stored, or raise `NotFoundError`."""
    if not isinstance(stored.data, WorkingMemory):
        raise no_working_memory(conversation_id)
    return stored.data


def no_working_memory(conversation_id: str) -> NotFoundError:
    """Return the error for a conversation without a working memory."""
    return NotFoundError(
        f"conversation {conversation_id!r} has no working memory; get_or_create() makes one"
    )
