"""The base class of the records of working memory, which validates and copies them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from jazzmine.records.unknown_fields import (
    KEPT,
    Unknown,
    carry_over,
    keep_aside,
    set_aside,
    write_back,
)

if TYPE_CHECKING:
    from typing import ClassVar, Self

    from pydantic.dataclasses import dataclass as memory_record
    from pydantic_core import SchemaSerializer, SchemaValidator

__all__ = [
    "ENDED",
    "MemoryRecord",
    "changed_copy",
    "checked_copy",
    "memory_record",
    "refuse_after_block",
    "set_unvalidated",
    "shallow_copy",
    "with_class",
]

# An instance in a field is validated again, and so copied: a later change of the caller's object
# has no effect.
_CONFIG = ConfigDict(
    extra="forbid",
    validate_assignment=True,
    allow_inf_nan=False,
    revalidate_instances="always",
)

if not TYPE_CHECKING:

    def memory_record(kind):
        """Make a class a pydantic dataclass that names the field of a positional argument.

        In a `ValidationError`, pydantic's own dataclass names the argument's number.
        """
        kind = dataclass(kind, config=_CONFIG)
        names = [each.name for each in fields(kind)]
        init = kind.__init__

        @wraps(init)
        def init_by_name(self, /, *args, **kwargs):
            if len(args) > len(names):
                raise TypeError(
                    f"{kind.__name__} takes {len(names)} arguments, {len(args)} were given"
                )
            init(self, **dict(zip(names, args, strict=False)), **kwargs)

        set_attribute = kind.__setattr__

        def set_and_keep(self, name, value):
            before = vars(self)
            if ENDED in before:
                refuse_after_block(self)
            set_attribute(self, name, value)
            if vars(self) is not before:  # pydantic has made a new __dict__ with only the fields
                vars(self).update(before | vars(self))

        kind.__init__ = init_by_name
        kind.__setattr__ = set_and_keep
        return kind


AnyRecord = TypeVar("AnyRecord", bound="MemoryRecord")

# A key in a working memory's `__dict__`, not a field: the block of the memory has ended.
ENDED = "_ended"

_new = object.__new__


class MemoryRecord:
    """The base class of the records of working memory.

    The fields are validated when the record is built, when a field is assigned, and when it is
    stored. Fields of a newer version are kept aside when stored data is read, and written back
    with the other fields.
    """

    if TYPE_CHECKING:
        __pydantic_validator__: ClassVar[SchemaValidator]
        __pydantic_serializer__: ClassVar[SchemaSerializer]

    def to_dict(self) -> dict[str, Any]:
        """Return a deep copy of the record as a dict of JSON types.

        Raises:
            ValidationError: a field was made invalid in place; the text names it.
        """
        checked = self.__pydantic_validator__.validate_python(self)
        plain: dict[str, Any] = self.__pydantic_serializer__.to_python(checked, mode="json")
        if KEPT in vars(self):
            write_back(self, plain)
        return plain

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Self:
        """Return the record for a result of `to_dict`, of this version or another one.

        Fields that have a default may be missing; unknown ones are kept for `to_dict`.

        Raises:
            NewerFormatError: the data has a `format` that only a newer version can read.
            ValidationError: a field is missing, or its value is not valid.
        """
        unknown: Unknown = []
        try:
            record = cls.__pydantic_validator__.validate_python(d)
        except ValidationError as error:
            known, unknown = set_aside(d, error)
            record = cls.__pydantic_validator__.validate_python(known)
        keep_aside(record, unknown)
        return with_class(record, cls)


def checked_copy(record: AnyRecord, kind: type[AnyRecord], argument: str) -> AnyRecord:
    """Validate a record with its current values, and return a deep copy.

    Args:
        argument: the name of the caller's argument, for error messages.

    Raises:
        TypeError: it is not a `kind`.
        ValidationError: a field was made invalid in place; the text names it.
    """
    if not isinstance(record, kind):
        raise TypeError(f"{argument} must be of type {kind.__name__}, not {type(record).__name__}")
    copied: AnyRecord = kind.__pydantic_validator__.validate_python(record)
    if KEPT in vars(record):
        carry_over(record, copied)
    return copied


def with_class(record: MemoryRecord, kind: type[AnyRecord]) -> AnyRecord:
    """Return the record itself with a subclass that sets other limits.

    Such a class has no validator: the validator of its base class returns the base class.
    """
    if not isinstance(record, kind):
        object.__setattr__(record, "__class__", kind)
    return cast("AnyRecord", record)


def refuse_after_block(memory: Any) -> NoReturn:
    """Raise `RuntimeError`: the block of a working memory has ended."""
    raise RuntimeError(
        f"the locked() block of conversation {memory.conversation_id!r} has ended: a change of its"
        " working memory would not be saved"
    )


def set_unvalidated(record: MemoryRecord, **values: Any) -> None:
    """Set fields to values that were validated and copied before.

    An assignment would validate and copy each again, and could fail after the first field.
    """
    vars(record).update(values)


def shallow_copy(record: AnyRecord) -> AnyRecord:
    """Return a copy that has the same objects as its fields."""
    copied: AnyRecord = _new(type(record))
    copied.__dict__.update(record.__dict__)
    return copied


def changed_copy(record: AnyRecord, **values: Any) -> AnyRecord:
    """Return a shallow copy with some other values, which were validated before."""
    copied = shallow_copy(record)
    copied.__dict__.update(values)
    return copied
