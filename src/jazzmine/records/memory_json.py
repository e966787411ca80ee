"""Working memory as the JSON that is stored of it."""

from __future__ import annotations

from pydantic_core import PydanticSerializationError

from jazzmine.records.working_memory import WorkingMemory

__all__ = ["from_json", "to_json"]


def to_json(memory: WorkingMemory) -> bytes:
    """Return a working memory as JSON; `from_json` gives an equal one back.

    Args:
        memory: one that only its transitions changed since it was read; any other has to go
            through `checked_copy` first.
    """
    return WorkingMemory.__pydantic_serializer__.to_json(memory)


def from_json(data: bytes) -> WorkingMemory:
    """Build a working memory from what `to_json` returned, or the predecessor stored.

    Raises:
        ValidationError: it is no JSON, or a field is unknown, missing or of a wrong type.
    """
    memory: WorkingMemory = WorkingMemory.__pydantic_validator__.validate_json(data)
    return memory
