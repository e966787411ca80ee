"""The state of a conversation."""

from __future__ import annotations

from jazzmine.records.flow import ActiveFlowState
from jazzmine.records.turn import TurnCache
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["ActiveFlowState", "TurnCache", "WorkingMemory"]
