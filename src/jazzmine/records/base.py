"""The base of all stored records, and the way they become bytes and come back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

__all__ = ["Record", "Sealed", "seal"]


class Record(BaseModel):
    """A stored record: its fields are checked when it is built, changed, stored and read."""

    # Whether its JSON leaves out what is at its default, which only works with constants:
    # "now" at the time of writing is another time than "now" at the time of reading.
    omits_defaults: ClassVar[bool] = True

    # An instance is validated again wherever it is passed, and so copied.
    model_config = ConfigDict(
        extra="forbid",
        validate_assignment=True,
        allow_inf_nan=False,
        revalidate_instances="always",
    )


AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True)
class Sealed(Generic[AnyRecord]):
    """A checked copy of a record that nobody else holds, and the same as JSON."""

    record: AnyRecord

    @cached_property
    def json(self) -> bytes:
        """The record as JSON; what it leaves out is at its default."""
        write = self.record.__pydantic_serializer__.to_json
        return write(self.record, exclude_defaults=self.record.omits_defaults)


def seal(record: AnyRecord, kind: type[AnyRecord]) -> Sealed[AnyRecord]:
    """Check a record as it stands now and detach it from its caller.

    Checking it at construction is not enough: lists and dicts are changed in place, and
    `model_copy(update=...)` and `model_construct` check nothing.

    Raises:
        TypeError: it is not a `kind`.
        ValidationError: a field holds what the back ends cannot; the text names the field.
    """
    if not isinstance(record, kind):
        raise TypeError(f"expected a {kind.__name__}, got a {type(record).__name__}")
    return Sealed(kind.__pydantic_validator__.validate_python(record))
