"""The encrypted fields of each record: the words and the data of people and of tools.

Readable are the fields that stores sort, page, sum up, join and erase by: ids, times, roles, flags,
counts and costs, and the names of models, tools, flows and agents. Each field of each record is
named here once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jazzmine.records.base import Record
from jazzmine.records.items import MemoryItem
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import (
    ConfirmationEvent,
    EmissionRecord,
    FlowEvent,
    LLMCallRecord,
    ScriptGenAttempt,
    SlotEvent,
    TaskEmission,
    ToolTrace,
    TurnTrace,
)

__all__ = ["ENCRYPTED", "PARTS", "READABLE"]

#: The encrypted fields, each with the value that is stored in its place. `errors` of a trace is
#: [""] there if it has any, so that failed turns can be counted.
ENCRYPTED: Mapping[type[Record], Mapping[str, Any]] = {
    Conversation: {"title": "", "metadata": {}},
    Message: {
        "original_content": "",
        "enhanced_message": "",
        "explicit_context": None,
        "sentiment_score": 0.0,
        "intent": "unknown",
        "entities": [],
        "reasoning_steps": None,
        "errors": None,
        "metadata": {},
    },
    TurnTrace: {
        "reasoning_steps": [],
        "errors": [],
        "detected_entities": [],
        "sentiment_score": 0.0,
        "metadata": {},
    },
    LLMCallRecord: {"input": None, "output": None, "error": None, "metadata": {}},
    ScriptGenAttempt: {"parse_error": None},
    TaskEmission: {"description": ""},
    ToolTrace: {
        "arguments": None,
        "description": "",
        "final_script": None,
        "final_data": None,
        "intermediates": [],
        "error": None,
        "traceback": None,
        "api_calls": [],
    },
    SlotEvent: {"value": None, "validation_error": None},
    ConfirmationEvent: {"question": ""},
    FlowEvent: {},
    EmissionRecord: {"metadata": {}},
    MemoryItem: {"value": {}, "data": None},
}

#: The fields with lists of other records, whose own fields are encrypted or readable.
PARTS: Mapping[type[Record], Mapping[str, type[Record]]] = {
    TurnTrace: {
        "llm_calls": LLMCallRecord,
        "task_emissions": TaskEmission,
        "tool_traces": ToolTrace,
        "emission_records": EmissionRecord,
        "slot_events": SlotEvent,
        "confirmation_events": ConfirmationEvent,
        "flow_events": FlowEvent,
    },
    ToolTrace: {"generation_attempts": ScriptGenAttempt},
}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: The fields that are stored as they are.
READABLE: Mapping[type[Record], frozenset[str]] = {
    Conversation: _names("id user_id agent_id created_at last_updated_at"),
    Message: _names(
        "id conversation_id user_id role episode_id is_cancellation is_continuation is_flagged"
        " timestamp invoked_flows invoked_tools"
    ),
    TurnTrace: _names(
        "id message_id conversation_id user_id agent_id turn_number started_at_ms ended_at_ms"
        " total_latency_ms total_prompt_tokens total_completion_tokens total_tokens"
        " total_energy_kwh total_co2_g detected_intent is_continuation is_cancellation"
        " copied_from"
    ),
    LLMCallRecord: _names(
        "call_id purpose model provider prompt_tokens completion_tokens total_tokens"
        " cached_prompt_tokens cache_write_tokens reasoning_tokens cost_usd latency_ms"
        " timestamp_ms success"
    ),
    ScriptGenAttempt: _names("attempt prompt_tokens completion_tokens latency_ms success"),
    TaskEmission: _names("task_index sandbox mode timestamp_ms"),
    ToolTrace: _names(
        "tool_name call_id started_at_ms task_index sandbox mode generation_total_tokens"
        " generation_latency_ms execution_id success execution_latency_ms output_bytes"
        " peak_memory_bytes total_latency_ms"
    ),
    SlotEvent: _names("flow_name slot_name slot_type required collected collected_at_turn"),
    ConfirmationEvent: _names("outcome resolved_at_turn"),
    FlowEvent: _names("flow_id flow_name flow_type event"),
    EmissionRecord: _names("id timestamp type energy_kwh co2_g"),
    MemoryItem: _names(
        "namespace key user_id source_message_id created_at updated_at expires_at revision"
    ),
}
