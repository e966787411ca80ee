"""The base class of stored records, and checked copies of them as JSON."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import InitErrorDetails, PydanticSerializationError, SchemaSerializer

logger: logging.Logger = logging.getLogger(__name__)

# The kinds of records of a message store, in the order in which they depend on each other.
RecordKind: TypeAlias = Literal["conversations", "messages", "traces"]

# The flagged messages in a list beside all others; "calls" are the flagged messages of an assistant
# or a colleague.
FlaggedShown: TypeAlias = Literal["none", "calls", "all"]


class Record(BaseModel):
    """A stored record; its fields are validated when it is built, changed, stored and read."""

    # Whether fields with their default are left out of the JSON. That requires constant
    # defaults: "now" has another value when the record is read.
    omits_defaults: ClassVar[bool] = True

    # Fields whose default is only for new records: stored data without them is refused.
    always_stored: ClassVar[frozenset[str]] = frozenset()

    # Fields with a time in ms since 1970.
    moments: ClassVar[tuple[str, ...]] = ()

    # An instance that is passed to a field is validated again, and so copied.
    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid",
        validate_assignment=True,
        allow_inf_nan=False,
        revalidate_instances="always",
    )

    if not TYPE_CHECKING:

        def __init__(self, /, **data: Any) -> None:
            try:
                self.__pydantic_validator__.validate_python(data, self_instance=self)
            except ValidationError as error:
                from jazzmine.records.hints import with_hints  # most programs never need it

                raise with_hints(error, type(self)) from None
            for name in self.moments:
                if name in data:
                    warn_of_unit(f"{type(self).__name__}.{name}", getattr(self, name))

        # Stored data are validated without this method.
        __init__.__pydantic_base_init__ = True


# 1990 and 2500 in ms, and 2096 in ns: larger numbers stand for no end.
_FIRST_MS = 631_152_000_000
_LAST_MS = 16_725_225_600_000
_LAST_NS = 4_000_000_000_000_000_000


def warn_of_unit(name: str, ms: int | None) -> None:
    """Log once that a field or an argument is in ms, if its value probably has another unit."""
    if ms is not None and 0 < ms < _FIRST_MS:
        _warn_once(name, "before 1990", "seconds")
    elif ms is not None and _LAST_MS < ms < _LAST_NS:
        _warn_once(name, "after 2500", "microseconds or nanoseconds")


@cache
def _warn_once(name: str, when: str, unit: str) -> None:
    logger.warning("%s is %s: it is in ms since 1970, not in %s", name, when, unit)


AnyRecord = TypeVar("AnyRecord", bound=Record)


def require_stored(record: Record) -> None:
    """Raise ValidationError if a field in `always_stored` was missing in the data."""
    if not record.always_stored <= record.__pydantic_fields_set__:
        missing = sorted(record.always_stored - record.__pydantic_fields_set__)
        details = [InitErrorDetails(type="missing", loc=(name,), input={}) for name in missing]
        raise ValidationError.from_exception_data(type(record).__name__, details)


def json_of(
    serializer: SchemaSerializer, value: object, *, exclude_defaults: bool = False
) -> bytes:
    """Return a value as JSON, as pydantic's serializer of its type writes it.

    Raises:
        KeyboardInterrupt: Ctrl-C, which pydantic reports as an error of the value.
    """
    try:
        return serializer.to_json(value, exclude_defaults=exclude_defaults)
    except PydanticSerializationError as error:
        if not str(error).endswith("KeyboardInterrupt: "):
            raise
    raise KeyboardInterrupt


@dataclass(frozen=True)
class Snapshot(Generic[AnyRecord]):
    """A validated copy of a record, and its JSON; no other code refers to the copy."""

    record: AnyRecord

    @cached_property
    def json(self) -> bytes:
        """The record as JSON, without the fields that have their default."""
        serializer, omits = self.record.__pydantic_serializer__, self.record.omits_defaults
        return json_of(serializer, self.record, exclude_defaults=omits)


def snapshot_all(records: Iterable[AnyRecord], kind: type[AnyRecord]) -> list[Snapshot[AnyRecord]]:
    """Return a snapshot of each record, as `snapshot` makes it.

    Raises:
        TypeError: one of them is not a `kind`, or a record was passed instead of several.
        ValidationError: as in `snapshot`.
    """
    if isinstance(records, Record) or not isinstance(records, Iterable):
        # Iterating over a record would give its fields.
        raise TypeError(f"expected a list of {kind.__name__}, got a {type(records).__name__}")
    return [snapshot(record, kind) for record in records]


def snapshot(record: AnyRecord, kind: type[AnyRecord]) -> Snapshot[AnyRecord]:
    """Validate a record with its current values, and return a copy of it.

    Validating it at construction is not enough: lists and dicts can be changed in place, and
    `model_copy(update=...)` and `model_construct` validate nothing.

    Raises:
        TypeError: it is not a `kind`.
        ValidationError: a value cannot be stored by every back end; the text names the field.
    """
    if not isinstance(record, kind):
        raise TypeError(f"expected a {kind.__name__}, got a {type(record).__name__}")
    return Snapshot(kind.__pydantic_validator__.validate_python(record))
