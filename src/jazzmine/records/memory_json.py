"""Working memory as the JSON that is stored of it."""

from __future__ import annotations

from jazzmine.records.memory_base import checked_copy
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["from_json", "to_json"]


def to_json(memory: WorkingMemory) -> bytes:
    """Return a working memory as JSON; `from_json` gives an equal one back.

    It is not checked again. One that may have been changed in place, and not by its
    transitions alone, goes through `checked_copy` first.
    """
    return WorkingMemory.__pydantic_serializer__.to_json(memory)


def from_json(data: bytes, kind: type[WorkingMemory] = WorkingMemory) -> WorkingMemory:
    """Build a working memory from what anybody stored, the predecessor too.

    Args:
        kind: the class of the result.

    Raises:
        NewerFormatError: a newer version of this library wrote it.
        ValidationError: it is no JSON, or a field is missing or of a wrong type.
    """
    memory: WorkingMemory = kind.__pydantic_validator__.validate_json(data)
    if b"NaN" in data or b"Infinity" in data:
        # Python's json writes these and the parser takes them, though JSON has no such
        # numbers. If it is one, and not a word in a text, this refuses it by name.
        memory = checked_copy(memory, kind, "memory")
    return memory
