"""Make storable values of whatever a program hands over."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar

from pydantic_core import to_jsonable_python

from jazzmine.records.base import Record
from jazzmine.records.types import MAX_DEPTH, MAX_INT, MIN_INT

__all__ = ["MAX_VALUE", "fitted", "storable_json", "storable_text"]

# How many characters of one value are kept.
MAX_VALUE = 50_000

# The JSON of a record that holds many values stays below this. MongoDB, which takes 16 MiB, needs
# up to six times the length of the JSON for a list of numbers.
_MAX_RECORD = 2_000_000

# A value is stored a few levels deep in the metadata of a message.
_MAX_LEVELS = MAX_DEPTH - 8

# A text is not cut to less than this.
_SHORT = 100

AnyRecord = TypeVar("AnyRecord", bound=Record)


def storable_text(value: object, limit: int = MAX_VALUE) -> str:
    """Return any value as text that every store can hold.

    Args:
        value: a str as it is, None as no text, anything else as its `str()`.
        limit: how many characters to keep; the text says how many were cut.
    """
    if type(value) is str and len(value) <= limit and value.isascii():
        return value
    text = "" if value is None else _text(value)
    if len(text) > limit:
        note = f"… [{len(text) - limit:,} characters cut]"
        text = text[: limit - len(note)] + note
    return text


def storable_json(value: object, limit: int = MAX_VALUE) -> Any:
    """Return any value as JSON that every store can hold; nothing is raised.

    What JSON cannot hold becomes text: NaN, integers beyond 64 bits, dates, objects. Sets become
    lists, bytes base64, keys text, half of an emoji U+FFFD. Iterators are not consumed.

    Args:
        value: the value; it is copied.
        limit: how many characters of it are kept, as JSON. Of a longer value, long texts are cut
            first, then the last elements; what is cut is said in its place.
    """
    if value is None or type(value) is bool:
        return value
    try:
        if isinstance(value, str) and not isinstance(value, Enum):
            return storable_text(value, limit)
        copier = _Copier(limit)
        copied = copier.copy(value, 0)
        return _Copier(limit * 9 // 10, share=2).copy(value, 0) if copier.has_cut else copied
    except Exception:
        return storable_text(value, limit)


def fitted(build: Callable[[int], AnyRecord], values: int) -> AnyRecord:
    """Return a record that every store can hold.

    Args:
        build: makes the record, with at most so many characters of each value.
        values: how many values it has.
    """
    limit = MAX_VALUE
    while True:
        record = build(limit)
        if values * limit <= _MAX_RECORD or len(record.model_dump_json()) <= _MAX_RECORD:
            return record
        limit //= 2


class _Copier:
    """Copies a value until a number of characters is reached.

    Args:
        left: how many characters of JSON the copy may have.
        share: 2 if a text may have half of those that are left, and 1 if all.
    """

    def __init__(self, left: int, share: int = 1) -> None:
        self.has_cut = False
        self._left = left
        self._share = share
        self._path: set[int] = set()

    def copy(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is bool or value is None:
            self._spend(5)
            return value
        if kind is str:
            return self._copy_text(value)
        if isinstance(value, Enum):
            return self.copy(value.value, depth + 1)
        if isinstance(value, (int, float)):
            return self._copy_number(value)
        if isinstance(value, (Mapping, list, tuple, set, frozenset)):
            if depth >= _MAX_LEVELS or id(value) in self._path:
                return self._copy_text(value)
            self._path.add(id(value))
            copied: Any = self._copy_items(value, depth + 1)
            self._path.discard(id(value))
            return copied
        if isinstance(value, (str, Iterator)) or depth >= _MAX_LEVELS:
            return self._copy_text(value)
        try:
            plain = to_jsonable_python(value, serialize_unknown=True, bytes_mode="base64")
        except (ValueError, RecursionError):
            return self._copy_text(value)
        return self._copy_text(plain) if isinstance(plain, str) else self.copy(plain, depth + 1)

    def _copy_items(self, value: Any, depth: int) -> Any:
        if not isinstance(value, Mapping):
            items = sorted(value, key=_text) if isinstance(value, (set, frozenset)) else value
            copied = []
            for number, item in enumerate(items):
                if self._left <= 0:
                    copied.append(self._note(len(value) - number))
                    break
                self._spend(2)
                copied.append(self.copy(item, depth))
            return copied
        fields: dict[str, Any] = {}
        for name, item in value.items():
            if self._left <= 0:
                fields["…"] = self._note(len(value) - len(fields))
                break
            key = self._copy_text(name).replace("\0", "\ufffd")
            while key in fields:  # {1: …, "1": …}
                key += "'"
            self._spend(4)
            fields[key] = self.copy(item, depth)
        return fields

    def _copy_number(self, value: float) -> Any:
        is_storable = (
            MIN_INT <= value <= MAX_INT if isinstance(value, int) else math.isfinite(value)
        )
        if not is_storable:
            return self._copy_text(int(value) if isinstance(value, int) else float(value))
        plain = int(value) if isinstance(value, int) else float(value)
        self._spend(len(repr(plain)))
        return plain

    def _copy_text(self, value: object) -> str:
        text = _text(value)
        longest = max(self._left // self._share, _SHORT)
        if len(text) > longest:
            self.has_cut = True
            text = storable_text(text, longest)
        self._spend(len(text) + 2)
        return text

    def _spend(self, characters: int) -> None:
        self._left -= characters
        self.has_cut = self.has_cut or self._left < 0

    def _note(self, count: int) -> str:
        self.has_cut = True
        return f"[{count:,} more cut]"


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
