"""The readable fields of each record; encrypted are the words and the data of people and of tools.

Readable are the fields that stores sort, page, sum up, join and erase by: ids, times, roles, flags,
counts and costs, and the names of models, tools, flows and agents. All other fields are encrypted,
so a new one is, too, until it is named here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

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

#: The fields with lists of records of these classes, whose own fields are encrypted or readable.
PARTS: Mapping[type[Record], Mapping[str, type[Record]]] = {
    kind: {
        name: part
        for name, field in kind.model_fields.items()
        for part in get_args(field.annotation)
        if part in READABLE
    }
    for kind in READABLE
}

# In place of the encrypted fields that have no default.
_EMPTY = {"original_content": "", "description": "", "question": "", "value": {}}


def _empty(kind: type[Record], name: str) -> Any:
    field = kind.model_fields[name]
    if field.is_required():
        return _EMPTY[name]
    return field.get_default(call_default_factory=True, validated_data={})


#: The encrypted fields, each with the value that is stored in its place. `errors` of a trace is
#: [""] there if it has any, so that failed turns can be counted.
ENCRYPTED: Mapping[type[Record], Mapping[str, Any]] = {
    kind: {
        name: _empty(kind, name)
        for name in kind.model_fields
        if name not in READABLE[kind] and name not in PARTS[kind]
    }
    for kind in READABLE
}
