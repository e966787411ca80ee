"""The records of a message store, under the path that jazzmine 0.1 had for them."""

from __future__ import annotations

from jazzmine.records.messages import Conversation, Entity, Message, MessageRole
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
from jazzmine.records.usage import TraceFilter, UsageSummary

__all__ = [
    "ConfirmationEvent",
    "Conversation",
    "EmissionRecord",
    "Entity",
    "FlowEvent",
    "LLMCallRecord",
    "Message",
    "MessageRole",
    "ScriptGenAttempt",
    "SlotEvent",
    "TaskEmission",
    "ToolTrace",
    "TraceFilter",
    "TurnTrace",
    "UsageSummary",
]
