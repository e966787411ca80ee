"""Where a flow stands, and where a conversation stands."""

from __future__ import annotations

from enum import Enum

__all__ = ["ConversationStatus", "FlowStatus"]


class FlowStatus(str, Enum):
    """The stages of a flow's life; the last three end it."""

    ACTIVE = "active"
    COLLECTING_SLOTS = "collecting_slots"
    AWAITING_CONFIRMATION = "awaiting_confirmation"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def is_in_progress(self) -> bool:
        """Whether a flow with this status still has something to do."""
        return self not in _ENDED


_ENDED = frozenset({FlowStatus.COMPLETED, FlowStatus.CANCELLED, FlowStatus.FAILED})


class ConversationStatus(str, Enum):
    """What a conversation is doing, in one word.

    Working memory derives it from the active flow. `ERROR` alone is never derived: it is for
    the caller to set, and stands until a transition derives the status again.
    """

    IDLE = "idle"
    IN_FLOW = "in_flow"
    COLLECTING_SLOTS = "collecting_slots"
    AWAITING_CONFIRMATION = "awaiting_confirmation"
    ERROR = "error"
