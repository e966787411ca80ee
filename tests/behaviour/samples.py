"""Records to store, with defaults for the fields that a test does not set."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Protocol

from jazzmine import (
    ConfirmationEvent,
    Conversation,
    EmissionRecord,
    Entity,
    FlowEvent,
    LLMCallRecord,
    Message,
    MessageRole,
    ScriptGenAttempt,
    SlotEvent,
    TaskEmission,
    ToolTrace,
    TurnTrace,
)

NOW = 1_700_000_000_000


class _WithId(Protocol):
    @property
    def id(self) -> str: ...


def ids(records: Iterable[_WithId]) -> list[str]:
    """The records' ids, in their order."""
    return [record.id for record in records]


def conversation(id: str = "c1", **fields: Any) -> Conversation:
    """A conversation of user "u1" with agent "a1"."""
    given = {
        "user_id": "u1",
        "agent_id": "a1",
        "title": "A trip to Lisbon",
        "created_at": NOW,
        "last_updated_at": NOW,
        **fields,
    }
    return Conversation(id=id, **given)


def message(id: str = "m1", **fields: Any) -> Message:
    """A message of user "u1" in conversation "c1"."""
    given = {
        "conversation_id": "c1",
        "user_id": "u1",
        "role": MessageRole.USER,
        "original_content": f"the text of {id}",
        "timestamp": NOW,
        **fields,
    }
    return Message(id=id, **given)


def messages(*named: str, **fields: Any) -> list[Message]:
    """Messages with these ids that are otherwise equal, timestamps included."""
    return [message(name, **fields) for name in named]


def trace(message_id: str = "m1", **fields: Any) -> TurnTrace:
    """The trace of a message, of agent "a1"; its id is "trace-of-" and the message's id."""
    given = {
        "id": f"trace-of-{message_id}",
        "conversation_id": "c1",
        "user_id": "u1",
        "agent_id": "a1",
        "turn_number": 1,
        "started_at_ms": NOW,
        "ended_at_ms": NOW + 250,
        "total_latency_ms": 250,
        **fields,
    }
    return TurnTrace(message_id=message_id, **given)


def llm_call(**fields: Any) -> LLMCallRecord:
    """A call of the model "small"."""
    given = {
        "call_id": "call-1",
        "purpose": "agent_loop",
        "model": "small",
        "timestamp_ms": NOW,
        **fields,
    }
    return LLMCallRecord(**given)


def tool_trace(**fields: Any) -> ToolTrace:
    """The first task, in the sandbox "python"."""
    given = {
        "task_index": 1,
        "sandbox": "python",
        "mode": "plan",
        "description": "look up the trains",
        **fields,
    }
    return ToolTrace(**given)


def full_message(id: str = "m1", text: str = "some text", **fields: Any) -> Message:
    """A message with every field set, text fields to the given text."""
    given = {
        "role": MessageRole.ASSISTANT,
        "original_content": text,
        "enhanced_message": text,
        "explicit_context": [text, ""],
        "episode_id": 7,
        "sentiment_score": -0.25,
        "intent": text,
        "entities": [Entity(name=text, attributes=[text, text]), Entity(name="bare")],
        "is_cancellation": True,
        "is_continuation": False,
        "is_flagged": True,
        "invoked_flows": [text],
        "invoked_tools": [],
        "reasoning_steps": [text, "and so on"],
        "errors": [text],
        "metadata": {"text": text, "nested": {"list": [1, 2.5, None, True, text]}},
        **fields,
    }
    return message(id, **given)


def full_trace(message_id: str = "m1", text: str = "some text", **fields: Any) -> TurnTrace:
    """A trace with every field and every kind of nested record set, text to the given text."""
    given = {
        "turn_number": 3,
        "total_prompt_tokens": 100,
        "total_completion_tokens": 20,
        "total_tokens": 120,
        "llm_calls": [_full_llm_call(text), llm_call(model=text)],
        "task_emissions": [_full_task_emission(text)],
        "tool_traces": [_full_tool_trace(text), tool_trace()],
        "emission_records": [_full_emission_record(text)],
        "slot_events": [_full_slot_event(text)],
        "confirmation_events": [
            ConfirmationEvent(question=text, outcome="expired", resolved_at_turn=2)
        ],
        "flow_events": [
            FlowEvent(flow_id=text, flow_name=text, flow_type=text, event="topic_shifted")
        ],
        "reasoning_steps": [text],
        "errors": [text, text],
        "total_energy_kwh": 0.00125,
        "total_co2_g": 0.5,
        "detected_intent": text,
        "detected_entities": [text],
        "sentiment_score": 0.75,
        "is_continuation": False,
        "is_cancellation": True,
        "metadata": {"text": text, "nested": {"list": [1, 2.5, None, True, text]}},
        **fields,
    }
    return trace(message_id, **given)


def _full_llm_call(text: str) -> LLMCallRecord:
    return LLMCallRecord(
        call_id=text,
        purpose=text,
        model=text,
        provider=text,
        prompt_tokens=100,
        completion_tokens=20,
        total_tokens=120,
        cached_prompt_tokens=60,
        cache_write_tokens=30,
        reasoning_tokens=10,
        cost_usd=0.0125,
        input=[{"role": "user", "content": text}],
        output={"content": [text, None, 1.5]},
        latency_ms=90,
        timestamp_ms=NOW,
        success=False,
        error=text,
        metadata={"text": text},
    )


def _full_task_emission(text: str) -> TaskEmission:
    return TaskEmission(
        task_index=1, sandbox=text, mode="interactive", description=text, timestamp_ms=NOW
    )


def _full_tool_trace(text: str) -> ToolTrace:
    attempt = ScriptGenAttempt(
        attempt=1,
        prompt_tokens=5,
        completion_tokens=6,
        latency_ms=7,
        success=False,
        parse_error=text,
    )
    return ToolTrace(
        tool_name=text,
        call_id=text,
        arguments={"text": text, "more": [1, 2.5, None]},
        started_at_ms=NOW,
        task_index=1,
        sandbox=text,
        mode=text,
        description=text,
        generation_attempts=[attempt],
        final_script=text,
        generation_total_tokens=11,
        generation_latency_ms=12,
        execution_id=text,
        success=True,
        final_data={"rows": [{"text": text, "price": 12.5, "seats": 3}], "more": None},
        intermediates=[{"step": 1, "text": text}],
        error=text,
        traceback=text,
        execution_latency_ms=13,
        output_bytes=14,
        peak_memory_bytes=15,
        api_calls=[{"url": text, "status": 200}],
        total_latency_ms=16,
    )


def _full_emission_record(text: str) -> EmissionRecord:
    return EmissionRecord(
        id=text,
        timestamp=datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=UTC),
        type="api",
        energy_kwh=0.001,
        co2_g=0.25,
        metadata={"text": text},
    )


def _full_slot_event(text: str) -> SlotEvent:
    return SlotEvent(
        flow_name=text,
        slot_name=text,
        slot_type=text,
        required=True,
        value=[text, {"text": text}],
        collected=True,
        collected_at_turn=2,
        validation_error=text,
    )
