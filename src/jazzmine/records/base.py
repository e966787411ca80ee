"""The base of all stored records, and the way they become bytes and come back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import InitErrorDetails

__all__ = ["Record", "Snapshot", "require_stored", "snapshot"]


class Record(BaseModel):
    """A stored record: its fields are checked when it is built, changed, stored and read."""

    # Whether its JSON leaves out what is at its default, which only works with constants:
    # "now" at the time of writing is another time than "now" at the time of reading.
    omits_defaults: ClassVar[bool] = True

    # Fields whose default is for new records alone: one that is stored without them is refused.
    always_stored: ClassVar[frozenset[str]] = frozenset()

    # An instance is validated again wherever it is passed, and so copied.
    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid",
        validate_assignment=True,
        allow_inf_nan=False,
        revalidate_instances="always",
    )


AnyRecord = TypeVar("AnyRecord", bound=Record)


def require_stored(record: Record) -> None:
    """Raise ValidationError if a field that is always stored was missing in what was read."""
    if not record.always_stored <= record.__pydantic_fields_set__:
        missing = sorted(record.always_stored - record.__pydantic_fields_set__)
        details = [InitErrorDetails(type="missing", loc=(name,), input={}) for name in missing]
        raise ValidationError.from_exception_data(type(record).__name__, details)


@dataclass(frozen=True)
class Snapshot(Generic[AnyRecord]):
    """A checked copy of a record that nobody else holds, and the same as JSON."""

    record: AnyRecord

    @cached_property
    def json(self) -> bytes:
        """The record as JSON; what it leaves out is at its default."""
        write = self.record.__pydantic_serializer__.to_json
        return write(self.record, exclude_defaults=self.record.omits_defaults)


def snapshot(record: AnyRecord, kind: type[AnyRecord]) -> Snapshot[AnyRecord]:
    """Check a record as it stands now and detach it from its caller.

    Checking it at construction is not enough: lists and dicts are changed in place, and
    `model_copy(update=...)` and `model_construct` check nothing.

    Raises:
        TypeError: it is not a `kind`.
        ValidationError: a field holds what the back ends cannot; the text names the field.
    """
    if not isinstance(record, kind):
        raise TypeError(f"expected a {kind.__name__}, got a {type(record).__name__}")
    return Snapshot(kind.__pydantic_validator__.validate_python(record))
