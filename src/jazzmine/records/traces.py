"""The trace of a turn: its calls of models and tools, and its flow and slot events."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated, ClassVar, Literal
from uuid import uuid4

from pydantic import AfterValidator, Field

from jazzmine.records.base import Record
from jazzmine.records.types import Id, Int64, JsonObject, JsonValue, Text

__all__ = [
    "ConfirmationEvent",
    "EmissionRecord",
    "FlowEvent",
    "LLMCallRecord",
    "ScriptGenAttempt",
    "SlotEvent",
    "TaskEmission",
    "ToolTrace",
    "TurnTrace",
]


def _new_id() -> str:
    return str(uuid4())


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _to_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        return moment.replace(tzinfo=timezone.utc)
    try:
        return moment.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError("the moment is outside the years 1 to 9999 in UTC") from None


UtcDatetime = Annotated[datetime, AfterValidator(_to_utc)]


class LLMCallRecord(Record):
    """One call of a language model; times in ms."""

    call_id: Text = Field(default_factory=_new_id)
    purpose: Literal[
        "agent_loop",
        "script_generation",
        "flow_selection",
        "slot_extraction",
        "enhancement",
        "other",
    ]
    model: Text
    prompt_tokens: Int64 = 0
    completion_tokens: Int64 = 0
    total_tokens: Int64 = 0
    latency_ms: Int64 = 0
    timestamp_ms: Int64
    success: bool = True
    error: Text | None = None


class ScriptGenAttempt(Record):
    """One attempt to generate a script for a task; attempts are counted from 1."""

    attempt: Int64
    prompt_tokens: Int64 = 0
    completion_tokens: Int64 = 0
    latency_ms: Int64 = 0
    success: bool
    parse_error: Text | None = None


class TaskEmission(Record):
    """A task that the agent passed to a sandbox; tasks are counted from 1."""

    task_index: Int64
    sandbox: Text
    mode: Literal["plan", "interactive"]
    description: Text
    timestamp_ms: Int64


class ToolTrace(Record):
    """The script of a task, its run and its result; times in ms."""

    task_index: Int64
    sandbox: Text
    mode: Text
    description: Text
    generation_attempts: list[ScriptGenAttempt] = Field(default_factory=list)
    final_script: Text | None = None
    generation_total_tokens: Int64 = 0
    generation_latency_ms: Int64 = 0
    execution_id: Text | None = None
    success: bool = False
    final_data: JsonValue = None
    intermediates: list[JsonObject] = Field(default_factory=list)
    error: Text | None = None
    traceback: Text | None = None
    execution_latency_ms: Int64 = 0
    output_bytes: Int64 = 0
    peak_memory_bytes: Int64 | None = None
    api_calls: list[JsonObject] = Field(default_factory=list)
    total_latency_ms: Int64 = 0


class SlotEvent(Record):
    """The state of a flow's slot after the turn."""

    flow_name: Text
    slot_name: Text
    slot_type: Text
    required: bool
    value: JsonValue = None
    collected: bool = False
    collected_at_turn: Int64 | None = None
    validation_error: Text | None = None


class ConfirmationEvent(Record):
    """The outcome of a question for confirmation."""

    question: Text
    outcome: Literal["confirmed", "cancelled", "expired"]
    resolved_at_turn: Int64


class FlowEvent(Record):
    """A flow that began or ended in the turn."""

    flow_id: Text
    flow_name: Text
    flow_type: Text
    event: Literal["started", "completed", "cancelled", "failed", "topic_shifted"]


class EmissionRecord(Record):
    """The energy and the CO2 of one step; `timestamp` is UTC, a naive one is read as UTC."""

    id: Text = Field(default_factory=_new_id)
    timestamp: UtcDatetime = Field(default_factory=_now)
    type: Literal["llm", "tool", "agent_step", "api"]
    energy_kwh: float = 0.0
    co2_g: float = 0.0
    metadata: JsonObject = Field(default_factory=dict)


class TurnTrace(Record):
    """The trace of one turn, stored for the assistant's message that ended it; times in ms."""

    omits_defaults: ClassVar[bool] = False
    always_stored: ClassVar[frozenset[str]] = frozenset({"id"})

    id: Id = Field(default_factory=_new_id)
    message_id: Id
    conversation_id: Id
    user_id: Id
    agent_id: Id
    turn_number: Int64
    started_at_ms: Int64
    ended_at_ms: Int64
    total_latency_ms: Int64
    total_prompt_tokens: Int64 = 0
    total_completion_tokens: Int64 = 0
    total_tokens: Int64 = 0
    llm_calls: list[LLMCallRecord] = Field(default_factory=list)
    task_emissions: list[TaskEmission] = Field(default_factory=list)
    tool_traces: list[ToolTrace] = Field(default_factory=list)
    emission_records: list[EmissionRecord] = Field(default_factory=list)
    slot_events: list[SlotEvent] = Field(default_factory=list)
    confirmation_events: list[ConfirmationEvent] = Field(default_factory=list)
    flow_events: list[FlowEvent] = Field(default_factory=list)
    reasoning_steps: list[Text] = Field(default_factory=list)
    errors: list[Text] = Field(default_factory=list)
    total_energy_kwh: float = 0.0
    total_co2_g: float = 0.0
    detected_intent: Text = "unknown"
    detected_entities: list[Text] = Field(default_factory=list)
    sentiment_score: float = 0.0
    is_continuation: bool = True
    is_cancellation: bool = False
