"""Copy stored records that were validated before, without validating them again."""

from __future__ import annotations

import types
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from jazzmine.records.base import Record
from jazzmine.records.types import JSON_SCALARS, copy_json

__all__ = ["copy_record"]

AnyRecord = TypeVar("AnyRecord", bound=Record)

_IMMUTABLE = (str, int, float, bool, datetime, Enum)

# An assignment to an attribute of a record is validated; these set its slots without that.
_new = object.__new__
_set_values = BaseModel.__dict__["__dict__"].__set__
_set_names = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_set_extra = BaseModel.__dict__["__pydantic_extra__"].__set__
_set_private = BaseModel.__dict__["__pydantic_private__"].__set__


class _Fields(NamedTuple):
    """The fields of a class of records that have mutable values."""

    lists: tuple[str, ...]  # of immutable values, or None
    nested: tuple[
        tuple[str, Callable[[Any], Any]], ...
    ]  # lists, with the function that copies an item
    plain: tuple[str, ...]  # any JSON value
    all: set[str]


def copy_record(record: AnyRecord) -> AnyRecord:
    """Return a copy that shares no mutable object with the record.

    It takes a third to a half of the time of reading the record's JSON.
    """
    kind = type(record)
    lists, nested, plain, names = _FIELDS[kind]
    values = record.__dict__.copy()
    for name in lists:
        value = values[name]
        if value is not None:
            values[name] = value[:]
    for name, copy in nested:
        value = values[name]
        values[name] = [copy(item) for item in value] if value else []
    for name in plain:
        value = values[name]
        if type(value) not in JSON_SCALARS:
            values[name] = copy_json(value) if value else type(value)()
    copied = _new(kind)
    _set_values(copied, values)
    _set_names(
        copied, names
    )  # shared by all copies: it has every field, so that pydantic never adds one
    _set_extra(copied, None)
    _set_private(copied, None)
    return copied


class _FieldsByKind(dict[type[Record], _Fields]):
    def __missing__(self, kind: type[Record]) -> _Fields:
        found = self[kind] = _fields(kind)
        return found


_FIELDS = _FieldsByKind()


def _fields(kind: type[Record]) -> _Fields:
    hints = get_type_hints(kind)
    lists: list[str] = []
    nested: list[tuple[str, Callable[[Any], Any]]] = []
    plain: list[str] = []
    for name in kind.__pydantic_fields__:
        hint = _without_none(hints[name])
        item = _without_none(get_args(hint)[0]) if get_origin(hint) is list else None
        if hint is Any or get_origin(hint) is dict:
            plain.append(name)
        elif item is not None and _is_immutable(item):
            lists.append(name)
        elif item is not None and get_origin(item) is dict:
            nested.append((name, copy_json))
        elif isinstance(item, type) and issubclass(item, Record):
            nested.append((name, copy_record))
        elif not _is_immutable(hint):
            raise TypeError(f"{kind.__name__}.{name}: no copy is known of {hint}")
    return _Fields(tuple(lists), tuple(nested), tuple(plain), set(kind.__pydantic_fields__))


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    return hint


def _is_immutable(hint: Any) -> bool:
    return get_origin(hint) is Literal or (isinstance(hint, type) and issubclass(hint, _IMMUTABLE))
