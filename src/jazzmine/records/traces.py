"""The trace of a turn: its calls of models and tools, and its flow and slot events."""

from __future__ import annotations

from datetime import UTC, datetime
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
    return datetime.now(UTC)


def _to_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("the moment is outside the years 1 to 9999 in UTC") from None


UtcDatetime = Annotated[datetime, AfterValidator(_to_utc)]


class LLMCallRecord(Record):
    """One call of a language model.

    Attributes:
        call_id: an id of the call; a new one by default.
        purpose: the purpose of the call: "agent_loop", "enhancement" or any other word.
        model: the name of the model.
        provider: the provider of the model, such as "openai", "anthropic" or "aws.bedrock".
        prompt_tokens: all tokens of the prompt, cached ones included.
        completion_tokens: all tokens of the answer, reasoning included.
        total_tokens: the sum of both.
        cached_prompt_tokens: the tokens of the prompt that the provider read from its cache.
        cache_write_tokens: the tokens of the prompt that the provider wrote to its cache.
        reasoning_tokens: the tokens of the answer that the model used to reason.
        cost_usd: the cost of the call, in US dollars; None if it is not known.
        input: the input, if it was kept; any JSON value.
        output: the answer, if it was kept; any JSON value.
        latency_ms: the duration of the call, in ms.
        timestamp_ms: the start of the call, ms since the Unix epoch, UTC.
        success: whether the model answered.
        error: the reason if it did not.
        metadata: anything else about the call, as a JSON object.
    """

    call_id: Text = Field(default_factory=_new_id)
    purpose: Text = "other"
    model: Text
    provider: Text = ""
    prompt_tokens: Int64 = 0
    completion_tokens: Int64 = 0
    total_tokens: Int64 = 0
    cached_prompt_tokens: Int64 = 0
    cache_write_tokens: Int64 = 0
    reasoning_tokens: Int64 = 0
    cost_usd: float | None = None
    input: JsonValue = None
    output: JsonValue = None
    latency_ms: Int64 = 0
    timestamp_ms: Int64
    success: bool = True
    error: Text | None = None
    metadata: JsonObject = Field(default_factory=dict)


class ScriptGenAttempt(Record):
    """One attempt of a model to generate the script of a task.

    Attributes:
        attempt: the number of the attempt, from 1.
        prompt_tokens: the tokens of its prompt.
        completion_tokens: the tokens of its answer.
        latency_ms: its duration, in ms.
        success: whether the answer was a script.
        parse_error: the reason if it was not.
    """

    attempt: Int64
    prompt_tokens: Int64 = 0
    completion_tokens: Int64 = 0
    latency_ms: Int64 = 0
    success: bool
    parse_error: Text | None = None


class TaskEmission(Record):
    """A task that the agent passed to a sandbox.

    Attributes:
        task_index: the number of the task in the turn, from 1.
        sandbox: the name of the sandbox.
        mode: how the sandbox works: "plan" or "interactive".
        description: what was to be done.
        timestamp_ms: its time, ms since the Unix epoch, UTC.
    """

    task_index: Int64
    sandbox: Text
    mode: Literal["plan", "interactive"]
    description: Text
    timestamp_ms: Int64


class ToolTrace(Record):
    """One call of a tool: of a function, or of a task's script in a sandbox.

    A call of a function needs the first four fields, `success`, `final_data` or `error`, and
    `total_latency_ms`.

    Attributes:
        tool_name: the name of the function, as the model called it.
        call_id: the provider's id of the call, with which its result is returned.
        arguments: the arguments of the function; any JSON value.
        started_at_ms: the start of the call, ms since the Unix epoch, UTC.
        task_index: the number of the task in the turn, from 1; 0 for a function.
        sandbox: the name of the sandbox.
        mode: how the sandbox works.
        description: what was to be done.
        generation_attempts: the attempts to generate the task's script.
        final_script: the script that was run.
        generation_total_tokens: the tokens of all attempts.
        generation_latency_ms: the duration of all attempts, in ms.
        execution_id: the sandbox's id of the run.
        success: whether the call returned a result.
        final_data: the result; any JSON value.
        intermediates: reports of the script before its result, as JSON objects.
        error: the reason if there is no result.
        traceback: the traceback of the error.
        execution_latency_ms: the duration of the script, in ms.
        output_bytes: the size of the script's output.
        peak_memory_bytes: the peak memory of the script.
        api_calls: the requests of the script, as JSON objects.
        total_latency_ms: the duration of the whole call, in ms.
    """

    tool_name: Text = ""
    call_id: Text = ""
    arguments: JsonValue = None
    started_at_ms: Int64 | None = None
    task_index: Int64 = 0
    sandbox: Text = ""
    mode: Text = ""
    description: Text = ""
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
    """The state of a flow's slot after the turn.

    Attributes:
        flow_name: the flow that needs the slot.
        slot_name: the name of the slot.
        slot_type: the kind of the expected value, as text.
        required: whether the flow needs it to go on.
        value: the value; any JSON value.
        collected: whether there is a valid value.
        collected_at_turn: the turn in which it was collected.
        validation_error: the reason why the latest answer was refused.
    """

    flow_name: Text
    slot_name: Text
    slot_type: Text
    required: bool
    value: JsonValue = None
    collected: bool = False
    collected_at_turn: Int64 | None = None
    validation_error: Text | None = None


class ConfirmationEvent(Record):
    """The outcome of a question for confirmation.

    Attributes:
        question: the question.
        outcome: "confirmed", "cancelled" or "expired".
        resolved_at_turn: the turn that brought the outcome.
    """

    question: Text
    outcome: Literal["confirmed", "cancelled", "expired"]
    resolved_at_turn: Int64


class FlowEvent(Record):
    """A flow that began or ended in the turn.

    Attributes:
        flow_id: the id of the flow.
        flow_name: its name.
        flow_type: its kind, such as "sequential".
        event: "started", "completed", "cancelled", "failed", or "topic_shifted" if it ended
            because the user changed the topic.
    """

    flow_id: Text
    flow_name: Text
    flow_type: Text
    event: Literal["started", "completed", "cancelled", "failed", "topic_shifted"]


class EmissionRecord(Record):
    """The energy and the CO2 of one step.

    Attributes:
        id: an id of the record; a new one by default.
        timestamp: its time, in UTC; a naive one is read as UTC; now by default.
        type: the kind of the step: "llm", "tool", "agent_step" or "api".
        energy_kwh: the energy, in kWh.
        co2_g: the CO2, in g.
        metadata: anything else about the step, as a JSON object.
    """

    id: Text = Field(default_factory=_new_id)
    timestamp: UtcDatetime = Field(default_factory=_now)
    type: Literal["llm", "tool", "agent_step", "api"]
    energy_kwh: float = 0.0
    co2_g: float = 0.0
    metadata: JsonObject = Field(default_factory=dict)


class TurnTrace(Record):
    """The trace of one turn, stored for the assistant's message that ended it.

    `TurnRecorder` makes one. Filters, listings and summaries read the totals here, and the models
    and tools in `llm_calls` and `tool_traces`.

    Attributes:
        id: a new one by default.
        message_id: the message that the trace belongs to; a message has one trace.
        conversation_id: the conversation of that message.
        user_id: the user of the turn.
        agent_id: the agent that answered.
        turn_number: the number of the turn in its conversation; lists are sorted by it.
        started_at_ms: the start of the turn, ms since the Unix epoch, UTC.
        ended_at_ms: the end of the turn, ms since the Unix epoch, UTC.
        total_latency_ms: the duration of the turn, in ms.
        total_prompt_tokens: the tokens of all prompts.
        total_completion_tokens: the tokens of all answers of models.
        total_tokens: the sum of both.
        llm_calls: the calls of models, in their order.
        task_emissions: the tasks that were passed to sandboxes.
        tool_traces: the calls of tools, in their order.
        emission_records: the energy and the CO2 of the steps.
        slot_events: the states of the flow's slots after the turn.
        confirmation_events: the outcomes of questions for confirmation.
        flow_events: the flows that began or ended.
        reasoning_steps: the agent's thoughts, as texts.
        errors: texts of errors; a turn with any counts as failed. The error of a failed call
            belongs here, too: `TurnRecorder` and the recorders of the adapters put it here.
        total_energy_kwh: the energy of the turn, in kWh.
        total_co2_g: the CO2 of the turn, in g.
        detected_intent: the aim of the user, as a word of the agent's own.
        detected_entities: the names of the things that the user mentioned.
        sentiment_score: the user's mood, from -1 to 1.
        is_continuation: whether the turn went on with the previous topic.
        is_cancellation: whether the user cancelled the flow in progress.
        metadata: anything else about the turn, as a JSON object.
        copied_from: the id of the original of a copy that `fork_conversation` made; sums leave
            copies out. None in an original.
    """

    omits_defaults: ClassVar[bool] = False
    always_stored: ClassVar[frozenset[str]] = frozenset({"id"})
    moments: ClassVar[tuple[str, ...]] = ("started_at_ms", "ended_at_ms")

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
    metadata: JsonObject = Field(default_factory=dict)
    copied_from: Id | None = None
