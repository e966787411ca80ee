"""Names that are imported when they are first used, so that importing a face costs nothing.

Defining the records takes pydantic, which takes longer to import than many a script runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["ERRORS", "MEMORY_RECORDS", "MESSAGE_RECORDS", "importer"]

ERRORS: dict[str, Sequence[str]] = {
    "jazzmine.errors": (
        "ConfigurationError",
        "ConflictError",
        "IntegrityError",
        "InvalidAddressError",
        "JazzmineError",
        "LockLostError",
        "LockTimeoutError",
        "NewerFormatError",
        "NotFoundError",
        "RecordTooLargeError",
        "StaleWorkingMemoryError",
        "StoreClosedError",
        "StoreUnavailableError",
        "WrongEventLoopError",
    )
}

MESSAGE_RECORDS: dict[str, Sequence[str]] = {
    "jazzmine.records.messages": ("Conversation", "Entity", "Message", "MessageRole"),
    "jazzmine.records.traces": (
        "ConfirmationEvent",
        "EmissionRecord",
        "FlowEvent",
        "LLMCallRecord",
        "ScriptGenAttempt",
        "SlotEvent",
        "TaskEmission",
        "ToolTrace",
        "TurnTrace",
    ),
    "jazzmine.records.usage": ("TraceFilter", "UsageSummary"),
}

MEMORY_RECORDS: dict[str, Sequence[str]] = {
    "jazzmine.records.enums": ("ConversationStatus", "FlowStatus"),
    "jazzmine.records.tool_call": ("ToolCallRecord",),
    "jazzmine.records.flow": (
        "ActiveFlowState",
        "FlowRecord",
        "PendingConfirmation",
        "Slot",
    ),
    "jazzmine.records.turn": ("TopicShift", "TurnCache", "WorkspaceEntity"),
    "jazzmine.records.working_memory": ("WorkingMemory",),
}


def importer(
    module: str, namespace: dict[str, Any], *homes: Mapping[str, Sequence[str]]
) -> Callable[[str], Any]:
    """Return a module's `__getattr__` (PEP 562).

    Args:
        module: the name of the module.
        namespace: its `globals()`, where a name stands once it was used.
        homes: which names come from which module.
    """
    home_of = {name: home for part in homes for home, names in part.items() for name in names}

    def __getattr__(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(home), name)
        return value

    return __getattr__
