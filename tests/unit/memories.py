"""Working memories in the states with which tests start."""

from __future__ import annotations

from typing import Any

from jazzmine.records.flow import ActiveFlowState, PendingConfirmation, Slot
from jazzmine.records.working_memory import WorkingMemory


def new_memory() -> WorkingMemory:
    return WorkingMemory("conversation", "user", "agent", last_updated=1.0)


def in_flow(**fields: Any) -> WorkingMemory:
    memory = new_memory()
    memory.start_flow(ActiveFlowState("f1", "booking", "flow", **fields))
    memory.last_updated = 1.0
    return memory


def collecting(*names: str) -> WorkingMemory:
    memory = in_flow()
    memory.register_slots([Slot(name, "", "str") for name in names])
    memory.last_updated = 1.0
    return memory


def awaiting_confirmation(requested_at_turn: int = 1) -> WorkingMemory:
    memory = in_flow()
    memory.request_confirmation(PendingConfirmation("f1", "Book?", {}, requested_at_turn))
    return memory


def question(flow_id: str = "f1") -> PendingConfirmation:
    return PendingConfirmation(flow_id, "Book the table?", {"seats": 4}, 0, 5.0, id="q1")


def flow_of(memory: WorkingMemory) -> ActiveFlowState:
    assert memory.active_flow is not None
    return memory.active_flow
