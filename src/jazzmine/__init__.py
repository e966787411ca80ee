"""The memory of a conversation, for AI agents.

The records and the errors are here; the stores are in `jazzmine.core`, with awaited calls, and
in `jazzmine.sync`, with plain ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jazzmine import _lazy

if TYPE_CHECKING:
    from jazzmine.errors import (
        ConfigurationError,
        ConflictError,
        IntegrityError,
        InvalidAddressError,
        JazzmineError,
        LockLostError,
        LockTimeoutError,
        NewerFormatError,
        NotFoundError,
        RecordTooLargeError,
        StaleWorkingMemoryError,
        StoreClosedError,
        StoreUnavailableError,
        WrongEventLoopError,
    )
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
        _lazy.ERRORS,
    )

__all__ = [
    "ActiveFlowState",
    "ConfigurationError",
    "ConfirmationEvent",
    "ConflictError",
    "Conversation",
    "ConversationStatus",
    "EmissionRecord",
    "Entity",
    "FlowEvent",
    "FlowRecord",
    "FlowStatus",
    "IntegrityError",
    "InvalidAddressError",
    "JazzmineError",
    "LLMCallRecord",
    "LockLostError",
    "LockTimeoutError",
    "Message",
    "MessageRole",
    "NewerFormatError",
    "NotFoundError",
    "PendingConfirmation",
    "RecordTooLargeError",
    "ScriptGenAttempt",
    "Slot",
    "SlotEvent",
    "StaleWorkingMemoryError",
    "StoreClosedError",
    "StoreUnavailableError",
    "TaskEmission",
    "ToolCallRecord",
    "ToolTrace",
    "TopicShift",
    "TraceFilter",
    "TurnCache",
    "TurnTrace",
    "UsageSummary",
    "WorkingMemory",
    "WorkspaceEntity",
    "WrongEventLoopError",
]


def __dir__() -> list[str]:
    return __all__
