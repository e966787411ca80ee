"""Read stored records that break a rule, as jazzmine 0.1 and other programs have stored them.

Only a record that strict validation has refused is changed. A value that a record cannot
contain is replaced:

- NaN, infinity: null in free-form data, else the field's default;
- an integer beyond 64 bits: its decimal text, and in a field of integers the nearest that fits;
- U+0000 in a key of free-form data, and a lone surrogate: U+FFFD;
- an empty id: "unknown";
- data nested deeper than the limit: its JSON text.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from jazzmine.records.base import Record, require_stored
from jazzmine.records.types import MAX_DEPTH, MAX_INT, MIN_INT
from jazzmine.records.unreadable import Unreadable, unreadable

__all__ = [
    "Repairs",
    "parse_json",
    "plain_value",
    "repaired",
]

logger: logging.Logger = logging.getLogger(__name__)

UNKNOWN_ID = "unknown"

_ROUNDS = 10  # a replacement may be refused for another reason, but only a few times
_MOST_DIGITS = 4_000  # Python refuses to parse more than 4,300 (sys.set_int_max_str_digits)
_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"

AnyRecord = TypeVar("AnyRecord", bound=Record)


class Repairs(Unreadable):
    """Repairs the records of a JSON file that this library did not write, and logs each once."""

    def record(self, kind: type[AnyRecord], raw: Mapping[str, Any]) -> AnyRecord:
        """Return the record for data that strict validation refused, and log its replacements.

        Args:
            kind: the record's class.
            raw: its stored fields, as a dict of JSON types.

        Raises:
            ValidationError: it cannot be repaired; the text names the record and the field, and
                says what to do.
        """
        try:
            record, replaced = repaired(kind, raw)
        except ValidationError as error:
            raise unreadable(kind, raw.get("id"), error) from None
        for field, reason in replaced.items():
            if f"{kind.__name__} {raw.get('id')!a} {field}" not in self._logged:
                self._logged.add(f"{kind.__name__} {raw.get('id')!a} {field}")
                logger.warning(
                    "the stored %s %a is read with a replacement in %s, which breaks a rule: %s",
                    kind.__name__,
                    raw.get("id"),
                    field,
                    reason,
                )
        return record


def repaired(kind: type[AnyRecord], raw: Mapping[str, Any]) -> tuple[AnyRecord, dict[str, str]]:
    """Return a record with replacements for the values that it cannot contain.

    Returns:
        The record, and the reason for the replacement by the field's name.

    Raises:
        ValidationError: a value has no replacement.
    """
    try:
        data = deepcopy(dict(raw))
    except RecursionError:
        # Nested too deeply to be copied: this raises an error that names the field.
        return kind.__pydantic_validator__.validate_python(raw), {}
    replaced: dict[str, str] = {}
    first: ValidationError | None = None
    for _ in range(_ROUNDS):
        try:
            record: AnyRecord = kind.__pydantic_validator__.validate_python(data)
            require_stored(record)
            return record, replaced
        except ValidationError as error:
            first = first or error
            found = [detail for detail in error.errors(include_url=False) if _replace(data, detail)]
        if not found:
            break
        replaced.update((_name(detail["loc"]), detail["msg"]) for detail in found)
    assert first is not None
    raise first


def _replace(data: Any, error: ErrorDetails) -> bool:
    """Replace a refused value in place; return whether there is a replacement."""
    *path, name = error["loc"]
    try:
        for step in path:
            data = data[step]
        value = data[name]
    except (IndexError, KeyError, TypeError):
        # The field is missing, or the record has no such field.
        return False
    if error["type"] == "extra_forbidden":
        return False
    if error["type"] == "json_value":
        replacement = plain_value(value)
    elif _is_infinite(value, error["type"]) and isinstance(data, dict):
        del data[name]
        return True
    else:
        replacement = _replacement(value, error["type"])
    if replacement is value or replacement == value:
        return False
    data[name] = replacement
    return True


def _is_infinite(value: Any, refused_as: str) -> bool:
    # In JSON from PostgreSQL it is a string, because JSON has no such numbers.
    return refused_as == "finite_number" or (isinstance(value, float) and not math.isfinite(value))


def _replacement(value: Any, refused_as: str) -> Any:
    """Return the replacement for the value of a typed field, or the value itself."""
    if isinstance(value, str):
        if not value and refused_as == "string_too_short":
            return UNKNOWN_ID
        return _SURROGATE.sub(_REPLACEMENT, value) if _SURROGATE.search(value) else value
    if isinstance(value, int) and not MIN_INT <= value <= MAX_INT:
        if refused_as == "string_type":
            return str(value)
        if refused_as in ("greater_than_equal", "less_than_equal"):
            return MAX_INT if value > 0 else MIN_INT
    return value


def plain_value(value: Any, depth: int = 1) -> Any:
    """Return free-form data with replacements for values that a back end cannot store."""
    if isinstance(value, str):
        return _SURROGATE.sub(_REPLACEMENT, value)
    if isinstance(value, int) and not MIN_INT <= value <= MAX_INT:
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (dict, list)) and depth > MAX_DEPTH:
        return json.dumps(value)
    if isinstance(value, dict):
        return _plain_object(value, depth)
    if isinstance(value, list):
        return [plain_value(item, depth + 1) for item in value]
    return value


def _plain_object(value: dict[Any, Any], depth: int) -> dict[Any, Any]:
    plain: dict[Any, Any] = {}
    for key, item in value.items():
        if isinstance(key, str):
            key = _SURROGATE.sub(_REPLACEMENT, key).replace("\0", _REPLACEMENT)
            while key in plain:
                key += _REPLACEMENT
        plain[key] = plain_value(item, depth + 1)
    return plain


def parse_json(
    text: bytes | str, new_object: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """Parse JSON as jazzmine 0.1 does, with NaN, lone surrogates and integers of any size.

    Args:
        text: the JSON.
        new_object: makes an object of its keys and values, the outermost last; a dict by default.
    """
    return json.loads(text, parse_int=_parse_int, object_pairs_hook=new_object)


def _parse_int(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MOST_DIGITS else digits


def _name(location: Sequence[int | str]) -> str:
    return ".".join(map(str, location))
