"""What the records of working memory have in common: they are checked, and they are plain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

if TYPE_CHECKING:
    from typing import ClassVar

    from pydantic.dataclasses import dataclass as memory_record
    from pydantic_core import SchemaSerializer, SchemaValidator
    from typing_extensions import Self

__all__ = ["MemoryRecord", "checked_copy", "memory_record", "set_checked"]

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

        kind.__init__ = init_by_name
        return kind


AnyRecord = TypeVar("AnyRecord", bound="MemoryRecord")


class MemoryRecord:
    """What every record of working memory can do.

    Its fields are checked when it is built, when one is assigned to, and when it is stored.
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
        return plain

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Self:
        """Build a record from what `to_dict` returned; fields that have a default may be missing.

        Raises:
            ValidationError: a field is unknown, missing or holds what JSON cannot.
        """
        record: Self = cls.__pydantic_validator__.validate_python(d)
        return record


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
    return copied


def set_checked(record: MemoryRecord, **checked: Any) -> None:
    """Set several fields at once, to values that were checked and copied before.

    Assigning would check and copy each again, and could fail between one and the next.
    """
    vars(record).update(checked)
