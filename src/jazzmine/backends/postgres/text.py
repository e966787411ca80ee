"""Convert text and JSON to a form that PostgreSQL can store, and back.

PostgreSQL refuses U+0000 in text and in JSON. It is escaped with U+FDD0, a code point without a
character: U+FDD0 "0" is U+0000, U+FDD0 "1" is U+FDD0 itself, all other text is unchanged.

A jsonb number is a decimal without an exponent and without a negative zero: 1e16 would be read
as an integer, -0.0 without its sign. So a float is written with a decimal point, and -0.0 as
0.00, which no other float is written as. The values, and so all comparisons, stay the same.
A column of floats stores all of them; `object_of` writes its -0.0.
"""

from __future__ import annotations

import re

from pydantic_core import to_json

from jazzmine.errors import RecordTooLargeError

__all__ = ["from_json_text", "from_text", "is_escaped", "to_json_text", "to_text"]

_MARK = "\ufdd0"
_SIGNLESS_ZERO = "0.00"

# What is larger would take longer to convert than a call may take.
_LARGEST = 2**28

_MARK_BYTES = _MARK.encode()

# The form of pydantic's exponents; their sign, if they have one, can be found quickly.
_EXPONENT = re.compile(rb"e\+" if b"e+" in to_json(1e16) else rb"e\d")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]|-?\d[\d.]*(?:[eE][-+]?\d+)?', re.DOTALL)
_ZERO_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![\d.])0\.00(?![\d.])', re.DOTALL)


def to_text(value: str) -> str:
    """Return the text to store for a string.

    Raises:
        RecordTooLargeError: it is longer than 256 Mi characters.
    """
    if len(value) > _LARGEST:
        raise _too_large(len(value))
    if "\0" in value or _MARK in value:
        return value.replace(_MARK, f"{_MARK}1").replace("\0", f"{_MARK}0")
    return value


def from_text(stored: str) -> str:
    """Return the string for a stored text."""
    if _MARK not in stored:
        return stored
    return stored.replace(f"{_MARK}0", "\0").replace(f"{_MARK}1", _MARK)


def to_json_text(json: bytes, numbers: bool = True, depth: int = 1) -> str:
    """Return the JSON to store for JSON that pydantic wrote.

    Args:
        json: an object, or an array of objects.
        numbers: whether there may be numbers deeper than `depth`.
        depth: the level of the objects; the numbers at this level have typed columns, and are
            not changed.

    Raises:
        RecordTooLargeError: it is larger than 256 MiB, or its numbers are when written in full.
    """
    if len(json) > _LARGEST:
        raise _too_large(len(json))
    if b"\\u0000" in json or _MARK_BYTES in json:
        json = json.replace(_MARK_BYTES, _MARK_BYTES + b"1")
        # Between escaped backslashes, a backslash begins an escape.
        parts = json.split(rb"\\")
        json = rb"\\".join([part.replace(b"\\u0000", _MARK_BYTES + b"0") for part in parts])
    if numbers and (_EXPONENT.search(json) or b"-0.0" in json):
        json = _with_plain_numbers(json, depth)
    return json.decode()


def _too_large(size: int) -> RecordTooLargeError:
    return RecordTooLargeError(
        f"PostgreSQL takes at most {_LARGEST} bytes in one call, in which a float of 1e300 has"
        f" 300 digits, and these are {size} or more"
    )


def _with_plain_numbers(json: bytes, depth: int) -> bytes:
    level, size = 0, len(json)

    def plain(token: re.Match[bytes]) -> bytes:
        nonlocal level, size
        text = token[0]
        if text in b"[{":
            level += 1
        elif text in b"]}":
            level -= 1
        elif level > depth and text[:1] != b'"' and (text == b"-0.0" or b"e" in text.lower()):
            number = _plain_number(float(text))
            size += len(number) - len(text)
            if size > _LARGEST:
                raise _too_large(size)
            return number
        return text

    return _TOKEN.sub(plain, json)


def _plain_number(value: float) -> bytes:
    if value == 0:
        return _SIGNLESS_ZERO.encode()
    # All digits of a large float, which is an integer, in a tenth of the time of formatting it; a
    # small one has a decimal point, with or without an exponent.
    return b"%d.0" % int(value) if value.is_integer() else repr(value).encode()


def from_json_text(stored: str) -> str:
    """Return the original JSON for stored JSON as PostgreSQL writes it."""
    if _MARK in stored:
        stored = stored.replace(f"{_MARK}0", "\\u0000").replace(f"{_MARK}1", _MARK)
    return _ZERO_TOKEN.sub(_signed_zero, stored) if is_escaped(stored) else stored


def is_escaped(stored: str) -> bool:
    """Return whether stored JSON may differ from the original."""
    if _MARK in stored:
        return True
    # Searching for a short text takes a tenth of the time of a regular expression.
    at, size = stored.find(_SIGNLESS_ZERO), len(_SIGNLESS_ZERO)
    while at >= 0 and stored[at + size : at + size + 1].isdigit():
        at = stored.find(_SIGNLESS_ZERO, at + 1)
    return at >= 0


def _signed_zero(token: re.Match[str]) -> str:
    return token[0] if token[0][0] == '"' else "-0.0"
