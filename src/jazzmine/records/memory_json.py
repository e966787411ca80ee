"""Write working memory as JSON, and read it back."""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_core import from_json as parsed
from pydantic_core import to_json as as_json

from jazzmine.records.memory_base import with_class
from jazzmine.records.unknown_fields import FORMAT, KEPT, write_back
from jazzmine.records.working_memory import WorkingMemory

_HEAD = b'{"format":%d,' % FORMAT


def to_json(memory: WorkingMemory) -> bytes:
    """Return a working memory as JSON, from which `from_json` returns an equal one.

    It is not validated again. If a caller may have changed it in place, `checked_copy` must be
    called first.
    """
    serializer = memory.__pydantic_serializer__
    if KEPT not in vars(memory):
        return _HEAD + serializer.to_json(memory)[1:]
    plain = serializer.to_python(memory, mode="json")
    write_back(memory, plain)
    return as_json({"format": FORMAT, **plain})


def from_json(data: bytes, kind: type[WorkingMemory] = WorkingMemory) -> WorkingMemory:
    """Return the working memory from stored JSON of any version, jazzmine 0.1 included.

    Args:
        kind: the class of the result.

    Raises:
        NewerFormatError: a newer version of this library wrote it.
        ValidationError: it is not JSON, or a field is missing or has a wrong type.
    """
    known = b"{" + data[len(_HEAD) :] if data.startswith(_HEAD) else data
    try:
        return with_class(kind.__pydantic_validator__.validate_json(known), kind)
    except ValidationError as error:
        try:
            parts = parsed(data)
        except ValueError:
            raise error from None
    return kind.from_dict(parts)
