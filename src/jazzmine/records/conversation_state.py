"""The state of a conversation between its turns and within a turn."""

from __future__ import annotations

import time
from dataclasses import field
from typing import ClassVar

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import (
    ActiveFlowState,
    FlowRecord,
    PendingConfirmation,
    Slot,
    SuspendedFlow,
)
from jazzmine.records.memory_base import MemoryRecord, memory_record
from jazzmine.records.tool_call import ToolCallRecord, calls_section
from jazzmine.records.turn import TopicShift, TurnCache, WorkspaceEntity
from jazzmine.records.types import Id, Int64, JsonObject, Text


@memory_record
class ConversationState(MemoryRecord):
    """The fields of `WorkingMemory`, and the properties that are computed from them."""

    # The newest items are kept, up to these numbers; a subclass may set others.
    max_topic_history: ClassVar[int] = 50
    max_flow_history: ClassVar[int] = 50
    max_flow_history_bytes: ClassVar[int] = 256 << 10
    max_suspended_flows: ClassVar[int] = 10
    max_known_messages: ClassVar[int] = 16
    max_entity_attributes: ClassVar[int] = 50
    max_tool_call_history: ClassVar[int] = 200

    conversation_id: Id
    user_id: Id
    agent_id: Id
    created_at: float = field(default_factory=time.time)
    last_updated: float = field(default_factory=time.time)
    status: ConversationStatus = ConversationStatus.IDLE
    turn_number: Int64 = 0
    active_flow: ActiveFlowState | None = None
    flow_history: list[FlowRecord] = field(default_factory=list)
    pending_confirmation: PendingConfirmation | None = None
    entity_workspace: dict[Text, WorkspaceEntity] = field(default_factory=dict)
    entity_max_age_turns: Int64 = 5
    topic_history: list[TopicShift] = field(default_factory=list)
    last_agent_response: Text | None = None
    last_agent_intent: Text | None = None
    current_turn: TurnCache | None = None
    revision: Int64 = 0
    version_token: Text = field(default="", compare=False, repr=False)
    topics_dropped: Int64 = 0
    flows_dropped: Int64 = 0
    data: JsonObject = field(default_factory=dict)
    suspended_flows: list[SuspendedFlow] = field(default_factory=list)
    turns_by_message: dict[Text, Int64] = field(default_factory=dict)
    applied_messages: list[Text] = field(default_factory=list)
    confirmed: PendingConfirmation | None = field(default=None, compare=False, repr=False)

    @property
    def is_in_flow(self) -> bool:
        """Whether a flow is in progress."""
        return self.active_flow is not None and self.active_flow.status.is_in_progress

    @property
    def has_pending_confirmation(self) -> bool:
        """Whether the user has been asked to confirm something and has not answered."""
        return self.pending_confirmation is not None

    @property
    def pending_slots(self) -> list[Slot]:
        """The slots that the active flow still has to ask for."""
        return self.active_flow.pending_slots if self.active_flow else []

    @property
    def current_flow_can_be_interrupted(self) -> bool:
        """Whether another flow may start now: there is none, or it is still collecting slots."""
        flow = self.active_flow
        return flow is None or flow.status is FlowStatus.COLLECTING_SLOTS

    @property
    def last_tool_result(self) -> ToolCallRecord | None:
        """The latest tool call of the turn or, if it made none, of the active flow."""
        if self.current_turn and self.current_turn.tool_calls:
            return self.current_turn.last_tool_result
        return self.active_flow.last_tool_result if self.active_flow else None

    @property
    def salient_entities(self) -> list[WorkspaceEntity]:
        """The known entities, the one that was mentioned last first."""
        entities = reversed(self.entity_workspace.values())
        return sorted(entities, key=lambda entity: entity.last_seen_turn, reverse=True)

    @property
    def topic_count(self) -> int:
        """The number of topics of the conversation, including those that were dropped."""
        return self.topics_dropped + len(self.topic_history)

    @property
    def flow_count(self) -> int:
        """The number of flows that have ended, including those that were dropped."""
        return self.flows_dropped + len(self.flow_history)

    @property
    def flows_completed_names(self) -> list[str]:
        """The names of the completed flows in the history, in order."""
        completed = FlowStatus.COMPLETED.value
        return [flow.flow_name for flow in self.flow_history if flow.status == completed]

    def build_prompt_tool_sections(self) -> str:
        """Return the tool calls for a prompt, each once, or "" if there are none.

        First the active flow's calls from before this turn, as `<completed_tool_calls>`, then
        this turn's, as `<current_turn_tool_calls>`, with an empty line between the two.
        """
        history = self.active_flow.tool_call_history if self.active_flow else []
        current = self.current_turn.tool_calls if self.current_turn else []
        sections = (
            calls_section("completed_tool_calls", _made_before(history, current)),
            calls_section("current_turn_tool_calls", current),
        )
        return "\n\n".join(section for section in sections if section)


def _made_before(
    history: list[ToolCallRecord], current: list[ToolCallRecord]
) -> list[ToolCallRecord]:
    """Return a flow's calls without those of this turn, which are the last ones."""
    before = [*history]
    for call in reversed(current):
        if before and _mark(before[-1]) == _mark(call):
            before.pop()
    return before


def _mark(call: ToolCallRecord) -> tuple[object, ...]:
    # The caller may set the turn number, so it does not identify the calls of this turn alone.
    return call.tool_name, call.turn_number, call.call_index, call.called_at
