"""The types of the records' fields, which accept only values that every back end can store."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, StringConstraints
from pydantic_core import PydanticCustomError, core_schema

MAX_DEPTH = 64
# Of the namespace of an item.
MAX_PARTS = 16
_CONSTANTS = frozenset((bool, type(None)))
# Methods of pydantic, numpy and datetime that return what JSON can hold.
_CONVERSIONS = ("model_dump", "tolist", "isoformat")
MIN_INT, MAX_INT = -(2**63), 2**63 - 1

# A length constraint, even an empty one, makes pydantic encode the string as UTF-8: a lone
# surrogate is refused here, and not only when it is written.
Text = Annotated[str, StringConstraints(min_length=0)]
Id = Annotated[str, StringConstraints(min_length=1)]
Int64 = Annotated[int, Field(ge=MIN_INT, le=MAX_INT)]


class _Refused(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []


def plain_json(value: Any, level: int = 1) -> Any:
    """Return a copy of a value in plain JSON types, if JSON and every back end can store it.

    Tuples become lists. A value at level 1 is at most 64 levels deep. Pydantic adds the error to
    its `ValidationError`.
    """
    if type(value) is dict and not value:
        return {}  # most metadata is empty
    try:
        return _copy(value, level)
    except _Refused as refused:
        where = "".join(reversed(refused.path)) or "the value"
        raise PydanticCustomError(
            "json_value", "{where}: {reason}", {"where": where, "reason": refused.reason}
        ) from None


def copy_json(value: Any) -> Any:
    """Return a copy of a JSON value that was validated before."""
    kind = type(value)
    if kind is dict:
        copied = value.copy()
        for key, item in value.items():
            kind = type(item)
            if kind is dict or kind is list:
                copied[key] = copy_json(item)
        return copied
    if kind is list:
        copied = []
        for item in value:
            kind = type(item)
            copied.append(copy_json(item) if kind is dict or kind is list else item)
        return copied
    return value


def _copy(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _CONSTANTS or (kind is str and value.isascii()):
        return value
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, int):
        if not MIN_INT <= value <= MAX_INT:
            raise _Refused("an integer beyond 64 bits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _Refused(f"{value} is no JSON number")
        return float(value)
    if isinstance(value, dict):
        return _copy_object(value, depth)
    if isinstance(value, (list, tuple)):
        return _copy_array(value, depth)
    # numpy has a type named bool.
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    hint = next((f"; take its {call}()" for call in _CONVERSIONS if hasattr(value, call)), "")
    raise _Refused(f"JSON cannot hold a value of type {name}{hint}")


def _copy_object(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    _check_depth(depth)
    copied = {}
    for key, item in value.items():
        # Most keys and values need no copy, and no call of a function.
        kind = type(item)
        if (
            ((kind is str and item.isascii()) or kind in _CONSTANTS)
            and type(key) is str
            and key.isascii()
            and "\0" not in key
        ):
            copied[key] = item
            continue
        if not isinstance(key, str):
            raise _Refused(f"the key {key!r} is not a string")
        if "\0" in key:
            raise _Refused(f"the key {key!r} holds U+0000")
        try:
            copied[_encodable(key)] = _copy(item, depth + 1)
        except _Refused as refused:
            refused.path.append(f"[{key!r}]")
            raise
    return copied


def _copy_array(value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
    _check_depth(depth)
    copied = []
    for index, item in enumerate(value):
        try:
            copied.append(_copy(item, depth + 1))
        except _Refused as refused:
            refused.path.append(f"[{index}]")
            raise
    return copied


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _Refused(f"nested deeper than {MAX_DEPTH} levels")


def _encodable(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Refused("a lone surrogate, which UTF-8 cannot encode") from None
    # A value of a subclass (such as an Enum of strings) is stored as a str.
    return value if type(value) is str else str.__str__(value)


class _PlainJson:
    """Validates a JSON value; of a JSON text, any value is taken, and checked when it is stored."""

    @staticmethod
    def __get_pydantic_core_schema__(
        source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        schema = handler(source)
        return core_schema.json_or_python_schema(
            json_schema=schema,
            python_schema=core_schema.no_info_before_validator_function(plain_json, schema),
        )


JsonValue = Annotated[Any, _PlainJson]
JsonObject = Annotated[dict[str, Any], _PlainJson]
