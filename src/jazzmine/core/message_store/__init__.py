"""Message stores with awaited calls, and the records that they keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jazzmine import _lazy

if TYPE_CHECKING:
    from jazzmine._async.message_store.base import MessageStore
    from jazzmine._async.message_store.json import JSONMessageStore
    from jazzmine._async.message_store.mongodb import MongoDBMessageStore
    from jazzmine._async.message_store.postgres import PostgresMessageStore
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
else:
    __getattr__ = _lazy.importer(
        __name__,
        globals(),
        _lazy.MESSAGE_RECORDS,
        {
            "jazzmine._async.message_store.base": ("MessageStore",),
            "jazzmine._async.message_store.json": ("JSONMessageStore",),
            "jazzmine._async.message_store.mongodb": ("MongoDBMessageStore",),
            "jazzmine._async.message_store.postgres": ("PostgresMessageStore",),
        },
    )

__all__ = [
    "ConfirmationEvent",
    "Conversation",
    "EmissionRecord",
    "Entity",
    "FlowEvent",
    "JSONMessageStore",
    "LLMCallRecord",
    "Message",
    "MessageRole",
    "MessageStore",
    "MongoDBMessageStore",
    "PostgresMessageStore",
    "ScriptGenAttempt",
    "SlotEvent",
    "TaskEmission",
    "ToolTrace",
    "TraceFilter",
    "TurnTrace",
    "UsageSummary",
]


def __dir__() -> list[str]:
    return __all__
