"""Keep the unknown fields of records that a newer version stored, and write them back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from jazzmine.errors import NewerFormatError
from jazzmine.records.types import plain_json

# A version increases this number if an older one would misunderstand its data: another meaning or
# type of a known field, or a new value of an enum. A new field does not increase it.
FORMAT = 1

# The key of the unknown fields in a record's `__dict__`. A record without unknown fields that
# contains a record with them has an empty dict there.
KEPT = "_unknown_fields"

Path = tuple["str | int", ...]
Unknown = list[tuple[Path, str, Any]]


def set_aside(data: Any, error: ValidationError) -> tuple[dict[str, Any], Unknown]:
    """Remove the unknown fields from data that were refused because of them.

    Args:
        data: the data of a record.
        error: the error of validating it.

    Returns:
        A copy of the data without the unknown fields, and the unknown fields, each with the
        path of the record that it belongs to.

    Raises:
        NewerFormatError: the data has a higher `format` than this version reads.
        ValidationError: `error`, if it has other reasons than unknown fields.
    """
    if not isinstance(data, Mapping):
        raise error
    _require_known_format(data, error)
    details = error.errors(include_url=False, include_context=False, include_input=False)
    if any(detail["type"] != "unexpected_keyword_argument" for detail in details):
        raise error
    try:
        known: dict[str, Any] = plain_json({**data})
    except PydanticCustomError:
        raise error from None
    unknown: Unknown = []
    for detail in details:
        *path, name = detail["loc"]
        holder: Any = known
        for key in path:
            holder = holder[key]
        unknown.append((tuple(path), str(name), holder.pop(name)))
    return known, [each for each in unknown if each[:2] != ((), "format")]


def keep_aside(record: Any, unknown: Unknown) -> None:
    """Attach unknown fields to the records that they belong to."""
    for path, name, value in unknown:
        holder: Any = record
        vars(holder).setdefault(KEPT, {})
        for key in path:
            parts: Any = holder if isinstance(holder, (list, dict)) else vars(holder)
            holder = parts[key]
            if not isinstance(holder, (list, dict)):
                vars(holder).setdefault(KEPT, {})
        vars(holder)[KEPT][name] = value


def carry_over(record: Any, copied: Any) -> None:
    """Attach the unknown fields of a record, and of the records in it, to a copy."""
    for original, counterpart in _pairs(record, copied):
        vars(counterpart)[KEPT] = vars(original)[KEPT]


def write_back(record: Any, plain: dict[str, Any]) -> None:
    """Add the unknown fields of a record, and of the records in it, to its data."""
    for original, counterpart in [*_pairs(record, plain)]:
        counterpart.update(plain_json(vars(original)[KEPT]))


def _pairs(value: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each record with unknown fields, and its counterpart."""
    if isinstance(value, list):
        for item, counterpart in zip(value, other, strict=True):
            yield from _pairs(item, counterpart)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _pairs(item, other[key])
    elif KEPT in getattr(value, "__dict__", ()):
        yield value, other
        members = other if isinstance(other, dict) else vars(other)
        for name, item in vars(value).items():
            if name != KEPT:
                yield from _pairs(item, members[name])


def _require_known_format(data: Mapping[str, Any], error: ValidationError) -> None:
    number = data.get("format", FORMAT)
    if isinstance(number, bool) or not isinstance(number, int):
        raise error
    if number > FORMAT:
        raise NewerFormatError(
            f"the working memory of conversation {data.get('conversation_id')!r} has format"
            f" {number}, and this version of jazzmine reads formats up to {FORMAT}: a newer"
            " version wrote it; upgrade this process. It was left as it is"
        ) from None
