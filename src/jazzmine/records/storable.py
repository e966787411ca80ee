"""Make storable values of any value of a program."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar

from pydantic_core import to_jsonable_python

from jazzmine.records.base import Record
from jazzmine.records.types import MAX_INT, MIN_INT, plain_json

# The number of characters that are kept of one value.
MAX_VALUE = 50_000

# The levels of a value: it is stored some levels deep in the metadata of a message, which has 64.
_FIRST_LEVEL, _MAX_LEVELS = 9, 56

# A text is not cut to less than this.
_SHORT = 100

AnyRecord = TypeVar("AnyRecord", bound=Record)


def storable_text(value: object, limit: int = MAX_VALUE) -> str:
    """Return any value as text that every store can hold; "" for None.

    Args:
        value: its `str()` is taken; half of an emoji becomes U+FFFD.
        limit: the number of characters to keep; a cut text names the number of the others.
    """
    text = "" if value is None else _text(value)
    if len(text) > limit:
        note = f"… [{len(text) - limit:,} characters cut]"
        text = text[: limit - len(note)] + note
    return text


def storable_json(value: object, limit: int = MAX_VALUE) -> Any:
    """Return a copy of any value as JSON that every store can hold; nothing is raised.

    NaN, integers beyond 64 bits, dates and objects become text, sets lists, bytes base64, keys
    text, half of an emoji U+FFFD. Iterators are not consumed.

    Args:
        value: the value.
        limit: the number of characters of its JSON that are kept. Of a longer value, long texts are
            cut first, then the last elements; a note takes the place of the rest.
    """
    if value is None or (isinstance(value, str) and not isinstance(value, Enum)):
        return value and storable_text(value, limit)
    try:
        plain = plain_json(value, _FIRST_LEVEL)
        if len(repr(plain)) <= limit:
            return plain
    except Exception:  # what a program's own class raises, too
        pass
    try:
        return _Copier(limit * 9 // 10).copy(value, 0)
    except Exception:
        return storable_text(value, limit)


def storable_copy(record: AnyRecord, limit: int) -> AnyRecord:
    """Return a copy of a record; values that were changed in place are made storable, and cut."""
    fields = {name: storable_json(value, limit) for name, value in record}
    return type(record).model_validate(fields)


class _Copier:
    """Copies a value up to a number of characters of JSON; a text may have half of those left."""

    def __init__(self, left: int) -> None:
        self._left = left
        self._path: set[int] = set()

    def copy(self, value: Any, depth: int) -> Any:
        if isinstance(value, Enum):
            return self.copy(value.value, depth + 1)
        if value is None or isinstance(value, (bool, int, float)):
            return self._copy_scalar(value)
        is_open = depth < _MAX_LEVELS and id(value) not in self._path
        if isinstance(value, (str, Iterator)) or not is_open:
            return self._copy_text(value)
        if isinstance(value, (Mapping, list, tuple, set, frozenset)):
            self._path.add(id(value))
            copied: Any = (
                self._copy_fields(value, depth + 1)
                if isinstance(value, Mapping)
                else self._copy_items(value, depth + 1)
            )
            self._path.discard(id(value))
            return copied
        try:
            plain = to_jsonable_python(value, serialize_unknown=True, bytes_mode="base64")
        except (ValueError, RecursionError):
            plain = _text(value)
        return self.copy(plain, depth + 1)

    def _copy_items(self, value: Any, depth: int) -> list[Any]:
        copied: list[Any] = []
        for item in sorted(value, key=_text) if isinstance(value, (set, frozenset)) else value:
            if self._left <= 0:
                copied.append(f"[{len(value) - len(copied):,} more cut]")
                break
            self._left -= 2
            copied.append(self.copy(item, depth))
        return copied

    def _copy_fields(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for name, item in value.items():
            if self._left <= 0:
                copied["…"] = f"[{len(value) - len(copied):,} more cut]"
                break
            key = self._copy_text(name).replace("\0", "\ufffd")
            while key in copied:  # {1: …, "1": …}
                key += "'"
            self._left -= 4
            copied[key] = self.copy(item, depth)
        return copied

    def _copy_scalar(self, value: float | None) -> Any:
        is_plain = value is None or isinstance(value, bool)
        if isinstance(value, int) and not is_plain:
            value, is_plain = int(value), MIN_INT <= value <= MAX_INT
        elif isinstance(value, float):
            value, is_plain = float(value), math.isfinite(value)
        if not is_plain:
            return self._copy_text(value)
        self._left -= len(repr(value))
        return value

    def _copy_text(self, value: object) -> str:
        text = storable_text(_text(value), max(self._left // 2, _SHORT))
        self._left -= len(text) + 2
        return text


def _text(value: object) -> str:
    """Return the `str()` of a value without halves of emojis."""
    if type(value) is str and value.isascii():
        return value
    try:
        text = hex(value) if isinstance(value, int) and value.bit_length() > 4096 else str(value)
        # Two halves that belong together become one character.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    except Exception:
        return f"<{type(value).__qualname__}>"
