"""Both kinds of store with plain calls, and the records that they keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jazzmine import _lazy

if TYPE_CHECKING:
    from jazzmine._sync.message_store.base import MessageStore
    from jazzmine._sync.message_store.json import JSONMessageStore
    from jazzmine._sync.message_store.mongodb import MongoDBMessageStore
    from jazzmine._sync.message_store.postgres import PostgresMessageStore
    from jazzmine._sync.working_memory.base import WorkingMemoryStore
    from jazzmine._sync.working_memory.memory import InMemoryWorkingMemoryStore
    from jazzmine._sync.working_memory.redis import RedisWorkingMemoryStore
    from jazzmine.records.enums import ConversationStatus, FlowStatus
    from jazzmine.records.flow import ActiveFlowState, FlowRecord, PendingConfirmation, Slot
    from jazzmine.records.messages import Conversation, Entity, Message, MessageRole
    from jazzmine.records.tool_call import ToolCallRecord
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
    from jazzmine.records.turn import TopicShift, TurnCache, WorkspaceEntity
    from jazzmine.records.usage import TraceFilter, UsageSummary
    from jazzmine.records.working_memory import WorkingMemory
else:
    __getattr__ = _lazy.importer(
        __name__,
        globals(),
        _lazy.MESSAGE_RECORDS,
        _lazy.MEMORY_RECORDS,
        {
            "jazzmine._sync.message_store.base": ("MessageStore",),
            "jazzmine._sync.message_store.json": ("JSONMessageStore",),
            "jazzmine._sync.message_store.mongodb": ("MongoDBMessageStore",),
            "jazzmine._sync.message_store.postgres": ("PostgresMessageStore",),
            "jazzmine._sync.working_memory.base": ("WorkingMemoryStore",),
            "jazzmine._sync.working_memory.memory": ("InMemoryWorkingMemoryStore",),
            "jazzmine._sync.working_memory.redis": ("RedisWorkingMemoryStore",),
        },
    )

__all__ = [
    "ActiveFlowState",
    "ConfirmationEvent",
    "Conversation",
    "ConversationStatus",
    "EmissionRecord",
    "Entity",
    "FlowEvent",
    "FlowRecord",
    "FlowStatus",
    "InMemoryWorkingMemoryStore",
    "JSONMessageStore",
    "LLMCallRecord",
    "Message",
    "MessageRole",
    "MessageStore",
    "MongoDBMessageStore",
    "PendingConfirmation",
    "PostgresMessageStore",
    "RedisWorkingMemoryStore",
    "ScriptGenAttempt",
    "Slot",
    "SlotEvent",
    "TaskEmission",
    "ToolCallRecord",
    "ToolTrace",
    "TopicShift",
    "TraceFilter",
    "TurnCache",
    "TurnTrace",
    "UsageSummary",
    "WorkingMemory",
    "WorkingMemoryStore",
    "WorkspaceEntity",
]


def __dir__() -> list[str]:
    return __all__
