"""How a flow of a working memory ends or is set aside, and what all transitions share."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from jazzmine.errors import NotAppliedError
from jazzmine.records.arguments import require_text
from jazzmine.records.conversation_state import ConversationState
from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import ActiveFlowState, PendingConfirmation, SuspendedFlow
from jazzmine.records.memory_base import (
    ENDED,
    memory_record,
    refuse_after_block,
    set_unvalidated,
    shallow_copy,
)
from jazzmine.records.unknown_fields import KEPT

logger: logging.Logger = logging.getLogger(__name__)

AnyTransition = TypeVar("AnyTransition", bound=Callable[..., bool])

# Another key in a working memory's `__dict__`: a transition that does not apply raises.
STRICT = "_strict"

_STATUS_IN_FLOW: dict[FlowStatus | None, ConversationStatus] = {
    FlowStatus.ACTIVE: ConversationStatus.IN_FLOW,
    FlowStatus.COLLECTING_SLOTS: ConversationStatus.COLLECTING_SLOTS,
    FlowStatus.AWAITING_CONFIRMATION: ConversationStatus.AWAITING_CONFIRMATION,
}


def transition(method: AnyTransition) -> AnyTransition:
    """Decorate a transition: it raises `RuntimeError` after the block that its memory was for."""

    @wraps(method)
    def apply(self: FlowTransitions, *args: Any, **kwargs: Any) -> bool:
        if ENDED in vars(self):
            refuse_after_block(self)
        return method(self, *args, **kwargs)

    return apply  # type: ignore[return-value]


@memory_record
class FlowTransitions(ConversationState):
    """The transitions that end flows, set them aside and bring them back."""

    @transition
    def suspend_flow(self) -> bool:
        """Set the flow in progress aside with its slots and its question, for a digression.

        It comes back when the flow that is started above it ends, or by `resume_flow`. The oldest
        of more than `max_suspended_flows` is archived as cancelled.
        """
        flow = self.active_flow
        if flow is None or not self.is_in_flow:
            return self._not_applied("suspend_flow", "no flow in progress")
        question = self.pending_confirmation
        if question is not None and not self._is_asked_by(flow, question):
            question = None
        set_aside = SuspendedFlow(flow, question)
        # The records themselves: their copies lack the fields that a newer version has added.
        set_unvalidated(set_aside, flow=flow, confirmation=question)
        if KEPT in vars(self):
            vars(set_aside)[KEPT] = {}
        suspended = [*self.suspended_flows, set_aside]
        changes: dict[str, Any] = {"active_flow": None}
        if question is not None:
            changes["pending_confirmation"] = None
        if len(suspended) > self.max_suspended_flows:
            dropped = suspended.pop(0).flow.ended(FlowStatus.CANCELLED, self.turn_number)
            changes["flow_history"] = [*self.flow_history, dropped]
            logger.warning("%r: too many flows are set aside", self.conversation_id)
        return self._changed(**changes, suspended_flows=suspended)

    @transition
    def resume_flow(self, flow_id: str | None = None) -> bool:
        """Go on with a flow that was set aside, by default the newest; no other is in progress.

        It has its slots and its question as they were; an expired question is dropped.
        """
        if flow_id is not None:
            require_text("flow_id", flow_id)
        if self.is_in_flow:
            return self._not_applied("resume_flow", "another flow is in progress")
        changes = self._resumed(flow_id, self.turn_number, self.pending_confirmation)
        if not changes:
            return self._not_applied("resume_flow", "no such flow is set aside")
        return self._changed(
            **{**self._without_flow(FlowStatus.CANCELLED, self.turn_number), **changes}
        )

    @transition
    def complete_flow(self, flow_id: str | None = None) -> bool:
        """Archive the active flow as completed, and drop its confirmation.

        A question that belongs to no flow, and for which this one does not wait, stays open. The
        flow that was set aside last comes back.

        Args:
            flow_id: which flow, the active one or one that was set aside; others are left alone.
                None is the active one.
        """
        return self._end_flow("complete_flow", FlowStatus.COMPLETED, flow_id)

    @transition
    def cancel_flow(self, flow_id: str | None = None) -> bool:
        """Archive the active flow as cancelled, if there is one, and drop any confirmation.

        Otherwise it does what `complete_flow` does.
        """
        question = self.pending_confirmation
        if question is None or flow_id is not None:
            return self._end_flow("cancel_flow", FlowStatus.CANCELLED, flow_id)
        set_unvalidated(self, pending_confirmation=None)
        return self._changed(**self._after_flow(FlowStatus.CANCELLED, self.turn_number))

    @transition
    def fail_flow(self, flow_id: str | None = None) -> bool:
        """Archive the active flow as failed; otherwise it does what `complete_flow` does."""
        return self._end_flow("fail_flow", FlowStatus.FAILED, flow_id)

    def _end_flow(self, transition: str, status: FlowStatus, flow_id: str | None) -> bool:
        if flow_id is not None:
            require_text("flow_id", flow_id)
        flow = self.active_flow
        if flow is not None and flow_id in (None, flow.flow_id):
            return self._changed(**self._after_flow(status, self.turn_number))
        aside = None if flow_id is None else self._set_aside(flow_id)
        if aside is None:
            reason = "no active flow" if flow_id is None else f"no active flow {flow_id!r}"
            return self._not_applied(transition, reason)
        return self._changed(
            flow_history=[*self.flow_history, aside.flow.ended(status, self.turn_number)],
            suspended_flows=[each for each in self.suspended_flows if each is not aside],
        )

    def _after_flow(self, status: FlowStatus, turn_number: int) -> dict[str, Any]:
        """Return the changes that end the active flow, and bring back the one below it."""
        changes = self._without_flow(status, turn_number)
        if not changes:
            return {}
        return {**changes, **self._resumed(None, turn_number, changes["pending_confirmation"])}

    def _resumed(
        self, flow_id: str | None, turn: int, question: PendingConfirmation | None = None
    ) -> dict[str, Any]:
        """Return the changes that make a flow that was set aside the active one.

        Args:
            question: the one that stays open.
        """
        aside = self._set_aside(flow_id)
        if aside is None:
            return {}
        flow, own = shallow_copy(aside.flow), aside.confirmation
        if own is not None and own.is_expired(turn):
            # It does not wait for another question that is open.
            set_unvalidated(flow, status=FlowStatus.ACTIVE)
        elif own is not None:
            question = own
        return {
            "active_flow": flow,
            "pending_confirmation": question,
            "suspended_flows": [each for each in self.suspended_flows if each is not aside],
        }

    def _set_aside(self, flow_id: str | None) -> SuspendedFlow | None:
        """Return the flow with an id, or any, that was set aside last."""
        asides = [s for s in self.suspended_flows if flow_id in (None, s.flow.flow_id)]
        return asides[-1] if asides else None

    def _without_flow(self, status: FlowStatus, turn_number: int) -> dict[str, Any]:
        """Return the changes that archive the active flow, if there is one."""
        flow, question = self.active_flow, self.pending_confirmation
        if flow is None:
            return {}
        if question is not None and self._is_asked_by(flow, question):
            question = None
        return {
            "active_flow": None,
            "flow_history": [*self.flow_history, flow.ended(status, turn_number)],
            "pending_confirmation": question,
        }

    def _is_asked_by(self, flow: ActiveFlowState, question: PendingConfirmation) -> bool:
        return self._flow_waits or question.flow_id == flow.flow_id

    def _without_question(self) -> dict[str, Any]:
        """Return the changes that close the question for which the flow waits."""
        return {"pending_confirmation": None} if self._flow_waits else {}

    def _without_declined(self, turn: int, cancels: bool) -> dict[str, Any]:
        """Return the flow and the confirmation after the expiry or the cancellation in a turn."""
        confirmation = self.pending_confirmation
        expired = confirmation is not None and confirmation.is_expired(turn)
        if expired:
            logger.info("%r: the confirmation expired in turn %d", self.conversation_id, turn)
        ends = (cancels and self.is_in_flow) or (expired and self._flow_waits)
        if cancels or expired:
            set_unvalidated(self, pending_confirmation=None)
        if not ends:
            return {}
        return self._after_flow(FlowStatus.CANCELLED if cancels else FlowStatus.EXPIRED, turn)

    @property
    def _flow_waits(self) -> bool:
        flow = self.active_flow
        return flow is not None and flow.status is FlowStatus.AWAITING_CONFIRMATION

    def _flow_status(self) -> FlowStatus | None:
        """Return the status that follows from the flow's slots and the confirmation."""
        flow = self.active_flow
        if flow is None or not flow.status.is_in_progress:
            return None if flow is None else flow.status
        if self._flow_waits and self.pending_confirmation is not None:
            return FlowStatus.AWAITING_CONFIRMATION
        return FlowStatus.ACTIVE if flow.all_slots_collected else FlowStatus.COLLECTING_SLOTS

    def _changed(self, **validated: Any) -> bool:
        values = vars(self)
        values.update(validated, last_updated=time.time())
        self._derive()
        topics, flows = self.topic_history, self.flow_history
        if (excess := len(topics) - self.max_topic_history) > 0:
            dropped = self.topics_dropped + excess
            values.update(topic_history=topics[excess:], topics_dropped=dropped)
        if ("flow_history" in validated or len(flows) > self.max_flow_history) and (
            excess := self._excess_flows()
        ) > 0:
            dropped = self.flows_dropped + excess
            values.update(flow_history=flows[excess:], flows_dropped=dropped)
        return True

    def _excess_flows(self) -> int:
        """Return how many of the oldest records of flows are too many, or too large."""
        flows, size = self.flow_history, 0
        for kept, record in enumerate(reversed(flows[-self.max_flow_history :])):
            size += len(record.__pydantic_serializer__.to_json(record))
            if size > self.max_flow_history_bytes:
                return len(flows) - kept
        return len(flows) - self.max_flow_history

    def derive_statuses(self) -> None:
        """Derive the statuses after changes in place; an `ERROR` of the application stays."""
        if self.status is not ConversationStatus.ERROR:
            self._derive()

    def _derive(self) -> None:
        status = self._flow_status()
        if status is not None and self.active_flow is not None:
            set_unvalidated(self.active_flow, status=status)
        idle = ConversationStatus.IDLE
        if self.pending_confirmation is not None:
            idle = ConversationStatus.AWAITING_CONFIRMATION
        set_unvalidated(self, status=_STATUS_IN_FLOW.get(status, idle))

    def _not_applied(self, transition: str, reason: str) -> bool:
        text = f"{self.conversation_id!r}: {transition} changed nothing: {reason}"
        if STRICT in vars(self):
            raise NotAppliedError(text)
        logger.warning("%s", text)
        return False
