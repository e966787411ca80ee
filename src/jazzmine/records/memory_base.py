"""What the records of working memory have in common: they are checked, and they are plain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

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
    from typing import ClassVar

    from pydantic.dataclasses import dataclass as memory_record
    from pydantic_core import SchemaSerializer, SchemaValidator
    from typing_extensions import Self

__all__ = [
    "MemoryRecord",
    "checked_copy",
    "memory_record",
    "set_unvalidated",
    "shallow_copy",
    "with_class",
]

# An instance that goes into a record is validated again, which copies it: neither a change
# made in place before, nor one made later to the caller's object, gets in unchecked.
_CONFIG = ConfigDict(
    extra="forbid",
    validate_assignment=True,
    allow_inf_nan=False,
    revalidate_instances="always",
)

if not TYPE_CHECKING:

    def memory_record(kind):
        """Make a class a pydantic dataclass that names the field of a positional argument.

        pydantic's own would call it by its number in the text of a `ValidationError`.
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
            kept = vars(self).get(KEPT)
            set_attribute(self, name, value)
            if kept is not None:  # pydantic made a new __dict__ of the fields alone
                vars(self)[KEPT] = kept

        kind.__init__ = init_by_name
        kind.__setattr__ = set_and_keep
        return kind


AnyRecord = TypeVar("AnyRecord", bound="MemoryRecord")

_new = object.__new__


class MemoryRecord:
    """What every record of working memory can do.

    Its fields are checked when it is built, when one is assigned to, and when it is stored.
    Fields that a newer version added are kept out of sight when stored data is read, and
    written back with the rest.
    """

    if TYPE_CHECKING:
        __pydantic_validator__: ClassVar[SchemaValidator]
        __pydantic_serializer__: ClassVar[SchemaSerializer]

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain JSON types, which share nothing with it.

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
        """Build a record from what `to_dict` returned, of this version or another one.

        Fields that have a default may be missing; unknown ones are kept for `to_dict`.

        Raises:
            NewerFormatError: the data has a `format` that only a newer version can read.
            ValidationError: a field is missing or holds what JSON cannot.
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
    """Return a deep copy of a record as it stands now, checked.

    Args:
        argument: the name that the caller knows the record by.

    Raises:
        TypeError: it is no `kind`.
        ValidationError: a field was made invalid in place; the text names it.
    """
    if not isinstance(record, kind):
        raise TypeError(f"{argument} must be of type {kind.__name__}, not {type(record).__name__}")
    copied: AnyRecord = kind.__pydantic_validator__.validate_python(record)
    if KEPT in vars(record):
        carry_over(record, copied)
    return copied


def with_class(record: MemoryRecord, kind: type[AnyRecord]) -> AnyRecord:
    """Return the record itself, as one of a class that may only set limits of its own.

    Such a class has no validator of its own; what its base's builds is one of the base.
    """
    if not isinstance(record, kind):
        object.__setattr__(record, "__class__", kind)
    return cast("AnyRecord", record)


def set_unvalidated(record: MemoryRecord, **values: Any) -> None:
    """Set several fields at once, to values that were validated and copied before.

    Assigning would validate and copy each again, and could fail between one and the next.
    """
    vars(record).update(values)


def shallow_copy(record: AnyRecord) -> AnyRecord:
    """Return a copy whose fields are the record's own."""
    copied: AnyRecord = _new(type(record))
    copied.__dict__.update(record.__dict__)
    return copied
