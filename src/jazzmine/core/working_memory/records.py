"""The records that the state of a conversation consists of."""

from __future__ import annotations

from jazzmine.records.flow import FlowRecord, PendingConfirmation, Slot
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TopicShift, WorkspaceEntity

__all__ = [
    "FlowRecord",
    "PendingConfirmation",
    "Slot",
    "ToolCallRecord",
    "TopicShift",
    "WorkspaceEntity",
]
