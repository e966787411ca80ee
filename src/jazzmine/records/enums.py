"""The status of a flow, and the status of a conversation."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["ConversationStatus", "FlowStatus"]


class FlowStatus(StrEnum):
    """The status of a flow; with one of the last three it has ended."""

    ACTIVE = "active"
    COLLECTING_SLOTS = "collecting_slots"
    AWAITING_CONFIRMATION = "awaiting_confirmation"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FAILED = "failed"

    @property
    def is_in_progress(self) -> bool:
        """Whether a flow with this status has not ended."""
        return self not in _ENDED


_ENDED = frozenset(
    {FlowStatus.COMPLETED, FlowStatus.CANCELLED, FlowStatus.EXPIRED, FlowStatus.FAILED}
)


class ConversationStatus(StrEnum):
    """The status of a conversation.

    Working memory derives it from the active flow. Only `ERROR` is never derived: the caller
    sets it, and it stays until a transition derives the status again.
    """

    IDLE = "idle"
    IN_FLOW = "in_flow"
    COLLECTING_SLOTS = "collecting_slots"
    AWAITING_CONFIRMATION = "awaiting_confirmation"
    ERROR = "error"
