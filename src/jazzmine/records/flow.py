"""A flow in progress, its slots, and the record that is kept after it has ended."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import field
from typing import Annotated, Any
from uuid import uuid4

from pydantic import Field

from jazzmine.records.enums import FlowStatus
from jazzmine.records.memory_base import MemoryRecord, memory_record, set_unvalidated
from jazzmine.records.tool_call import ToolCallRecord, calls_section
from jazzmine.records.types import Id, Int64, JsonObject, JsonValue, Text

__all__ = ["ActiveFlowState", "FlowRecord", "PendingConfirmation", "Slot", "SuspendedFlow"]


@memory_record
class Slot(MemoryRecord):
    """One piece of information that a flow needs from the user.

    Attributes:
        name: its name, which a flow has once.
        description: the question for it, as text for a prompt.
        type: the kind of the expected value, as text for a prompt ("date", "email").
        required: whether the flow cannot go on without it.
        collected: whether it has a value.
        value: any JSON value, once `collected`.
        collected_at_turn: the last turn in which it was collected.
        validation_error: why the latest answer was refused.
    """

    name: Text
    description: Text
    type: Text
    required: bool = True
    collected: bool = False
    value: JsonValue = None
    collected_at_turn: Int64 = 0
    validation_error: Text = ""

    @property
    def is_pending(self) -> bool:
        """Whether the flow still has to collect the slot."""
        return self.required and not self.collected


@memory_record
class PendingConfirmation(MemoryRecord):
    """A question that the user must answer before an action is carried out.

    Attributes:
        flow_id: the flow that asks; "" for a question asked outside of a flow.
        action_description: the action, as text for a prompt.
        action_payload: the data of the action, a JSON object.
        requested_at_turn: the turn in which it was asked; 0 is set to the current turn.
        requested_at: Unix seconds.
        timeout_turns: the number of turns in which it can be answered, the turn of the question
            included: with 3 the user has two more messages, with 1 none.
        id: identifies the question in the conversation.
        timeout_seconds: the time in which it can be answered, in s, by the clocks of the machines
            that ask and confirm; None is no limit.
    """

    flow_id: Text
    action_description: Text
    action_payload: JsonObject
    requested_at_turn: Int64 = 0
    requested_at: float = field(default_factory=time.time)
    timeout_turns: Annotated[Int64, Field(ge=1)] = 3
    id: Id = field(default_factory=lambda: str(uuid4()))
    timeout_seconds: Annotated[float, Field(gt=0)] | None = None

    def is_expired(self, current_turn: int) -> bool:
        """Whether the question can no longer be answered in a turn, or now."""
        limit = self.timeout_seconds
        is_late = limit is not None and time.time() - self.requested_at >= limit
        return is_late or current_turn - self.requested_at_turn >= self.timeout_turns


@memory_record
class FlowRecord(MemoryRecord):
    """The record of a flow that has ended.

    Attributes:
        flow_id: the id of the flow.
        flow_name: its name, as text for a prompt.
        flow_type: its kind: "flow", "sequentialflow", or a word of the application.
        status: the value of a `FlowStatus`.
        started_at_turn: the turn in which it was started.
        ended_at_turn: the turn in which it ended.
        slot_values: the slots that were collected, by name.
        tool_summaries: the summaries of its successful tool calls, in order.
    """

    flow_id: Id
    flow_name: Text
    flow_type: Text
    status: Text
    started_at_turn: Int64
    ended_at_turn: Int64
    slot_values: JsonObject = field(default_factory=dict)
    tool_summaries: list[Text] = field(default_factory=list)


@memory_record
class ActiveFlowState(MemoryRecord):
    """A flow in progress.

    Attributes:
        flow_id: the id of the flow.
        flow_name: its name, as text for a prompt.
        flow_type: its kind: "flow", "sequentialflow", or a word of the application.
        status: its status, which each transition derives.
        started_at_turn: the turn in which it was started; 0 is set to the current turn.
        started_at: Unix seconds.
        priority: major and minor.
        tools_required: the names of the tools that it may call.
        current_step: the index of the current step of a sequential flow, from 0.
        total_steps: the number of steps of a sequential flow.
        step_results: the results of the completed steps.
        branch_results: the result of each branch of a parallel flow; None until it is done.
        condition_expr: the condition of a conditional flow.
        condition_branch_taken: the branch that was chosen.
        tool_call_history: the flow's tool calls without raw results; only the turn keeps these.
        slots: the slots by name.
    """

    flow_id: Id
    flow_name: Text
    flow_type: Text
    status: FlowStatus = FlowStatus.ACTIVE
    started_at_turn: Int64 = 0
    started_at: float = field(default_factory=time.time)
    priority: list[Int64] = field(default_factory=lambda: [0, 0])
    tools_required: list[Text] = field(default_factory=list)
    current_step: Int64 = 0
    total_steps: Int64 = 0
    step_results: list[JsonObject] = field(default_factory=list)
    branch_results: JsonObject = field(default_factory=dict)
    condition_expr: Text | None = None
    condition_branch_taken: Text | None = None
    tool_call_history: list[ToolCallRecord] = field(default_factory=list)
    slots: dict[Text, Slot] = field(default_factory=dict)

    @classmethod
    def from_flow(cls, flow: Any, turn_number: int) -> ActiveFlowState:
        """Return the state of a flow that starts in a turn, without a reference to the flow.

        Args:
            flow: anything with an `id` and a `name`, and optionally `priority`, `tools` (names,
                or objects that have one), `subflows` and `condition_expr`. The name of its
                class, in lower case, becomes the `flow_type`; a `parallelflow` has its
                subflows as branches, `branch_1` and so on.

        Raises:
            AttributeError: it has no `id` or no `name`.
            ValidationError: an attribute has a wrong type.
        """
        flow_type = type(flow).__name__.lower()
        total = len(getattr(flow, "subflows", None) or ())
        branches = total if flow_type == "parallelflow" else 0
        return cls(
            flow_id=flow.id,
            flow_name=flow.name,
            flow_type=flow_type,
            started_at_turn=turn_number,
            priority=list(getattr(flow, "priority", None) or (0, 0)),
            tools_required=[_tool_name(tool) for tool in getattr(flow, "tools", None) or ()],
            total_steps=total,
            branch_results={f"branch_{number}": None for number in range(1, branches + 1)},
            condition_expr=getattr(flow, "condition_expr", None),
        )

    @property
    def pending_slots(self) -> list[Slot]:
        """The slots that still have to be collected, in the order of their registration."""
        return [slot for slot in self.slots.values() if slot.is_pending]

    @property
    def all_slots_collected(self) -> bool:
        """Whether no slot is pending; true of a flow without slots."""
        return not self.pending_slots

    @property
    def collected_slot_values(self) -> dict[str, Any]:
        """The values collected so far, by the slot's name."""
        return {name: slot.value for name, slot in self.slots.items() if slot.collected}

    @property
    def completed_branches(self) -> int:
        """How many branches of a parallel flow have a result."""
        return sum(result is not None for result in self.branch_results.values())

    @property
    def all_branches_done(self) -> bool:
        """Whether every branch has a result; false of a flow without branches."""
        return 0 < len(self.branch_results) == self.completed_branches

    @property
    def is_sequential_complete(self) -> bool:
        """Whether every step is done; false of a flow without steps."""
        return 0 < self.total_steps <= self.current_step

    @property
    def priority_tuple(self) -> tuple[int, int]:
        """The priority as a tuple, for comparisons; (0, 0) if it is not a pair."""
        return (self.priority[0], self.priority[1]) if len(self.priority) >= 2 else (0, 0)

    @property
    def last_tool_result(self) -> ToolCallRecord | None:
        """The flow's latest tool call."""
        return self.tool_call_history[-1] if self.tool_call_history else None

    @property
    def failed_tool_calls(self) -> list[ToolCallRecord]:
        """The flow's tool calls that failed."""
        return [call for call in self.tool_call_history if not call.success]

    @property
    def tool_calls_for_step(self) -> list[ToolCallRecord]:
        """The tool calls that belong to the current step."""
        return [call for call in self.tool_call_history if call.step == self.current_step]

    def build_tool_history_prompt(self) -> str:
        """Return all tool calls of the flow as `<completed_tool_calls>`, or "" without any."""
        return calls_section("completed_tool_calls", self.tool_call_history)

    def is_same_start(self, other: ActiveFlowState) -> bool:
        """Whether the other flow is this one, started again in the same turn."""
        return (self.flow_id, self.started_at_turn) == (other.flow_id, other.started_at_turn)

    def replace_slots(self, slots: Iterable[Slot]) -> None:
        """Replace the slots; known slots keep their values."""
        known, asked = self.slots, {slot.name: slot for slot in slots}
        for name in asked.keys() & known.keys():
            kept = ("collected", "value", "collected_at_turn", "validation_error")
            set_unvalidated(asked[name], **{key: getattr(known[name], key) for key in kept})
        set_unvalidated(self, slots=asked)

    def drop_raw_results(self) -> None:
        """Remove the raw results of the tool calls; only the turn keeps them."""
        calls = [call.without_result() for call in self.tool_call_history]
        set_unvalidated(self, tool_call_history=calls)

    def drop_oldest_calls(self, kept: int) -> None:
        """Keep only the newest tool calls, at most `kept`."""
        del self.tool_call_history[: max(0, len(self.tool_call_history) - kept)]

    def ended(self, status: FlowStatus, turn_number: int) -> FlowRecord:
        """Return the record of the flow, which ends with a status in a turn."""
        calls = self.tool_call_history
        return FlowRecord(
            flow_id=self.flow_id,
            flow_name=self.flow_name,
            flow_type=self.flow_type,
            status=status.value,
            started_at_turn=self.started_at_turn,
            ended_at_turn=turn_number,
            slot_values=self.collected_slot_values,
            tool_summaries=[c.result_summary for c in calls if c.success and c.result_summary],
        )


@memory_record
class SuspendedFlow(MemoryRecord):
    """A flow that was set aside; it comes back when the flow above it has ended.

    Attributes:
        flow: the flow, as it was.
        confirmation: the question that it waits for; None without one.
    """

    flow: ActiveFlowState
    confirmation: PendingConfirmation | None = None


def _tool_name(tool: Any) -> Any:
    return tool if isinstance(tool, str) else getattr(tool, "name", tool)
