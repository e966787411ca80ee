"""Working memories with awaited calls, and the records that they keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jazzmine import _lazy

if TYPE_CHECKING:
    from jazzmine._async.working_memory.base import WorkingMemoryStore
    from jazzmine._async.working_memory.memory import InMemoryWorkingMemoryStore
    from jazzmine._async.working_memory.redis import RedisWorkingMemoryStore
    from jazzmine.records.enums import ConversationStatus, FlowStatus
    from jazzmine.records.flow import ActiveFlowState, FlowRecord, PendingConfirmation, Slot
    from jazzmine.records.tool_call import ToolCallRecord
    from jazzmine.records.turn import TopicShift, TurnCache, WorkspaceEntity
    from jazzmine.records.working_memory import WorkingMemory
else:
    __getattr__ = _lazy.importer(
        __name__,
        globals(),
        _lazy.MEMORY_RECORDS,
        {
            "jazzmine._async.working_memory.base": ("WorkingMemoryStore",),
            "jazzmine._async.working_memory.memory": ("InMemoryWorkingMemoryStore",),
            "jazzmine._async.working_memory.redis": ("RedisWorkingMemoryStore",),
        },
    )

__all__ = [
    "ActiveFlowState",
    "ConversationStatus",
    "FlowRecord",
    "FlowStatus",
    "InMemoryWorkingMemoryStore",
    "PendingConfirmation",
    "RedisWorkingMemoryStore",
    "Slot",
    "ToolCallRecord",
    "TopicShift",
    "TurnCache",
    "WorkingMemory",
    "WorkingMemoryStore",
    "WorkspaceEntity",
]


def __dir__() -> list[str]:
    return __all__
