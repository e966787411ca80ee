"""Convert text and JSON to a form that PostgreSQL can store, and back.

PostgreSQL refuses U+0000 in text and in JSON. It is escaped with U+FDD0, a code point without a
character: U+FDD0 "0" is U+0000, U+FDD0 "1" is U+FDD0 itself, all other text is unchanged.

A jsonb number is a decimal without an exponent: 1e16 would be read as an integer, which may be too
large for a record. So a float with an exponent is written with all its digits and a decimal point.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic_core import to_json

ESCAPE = "\ufdd0"
"""What text and JSON contain that differ from the original, apart from their numbers."""

_ESCAPE = ESCAPE.encode()

# What a float with a large exponent contains; older versions of pydantic write no sign.
_EXPONENT = b"e+" if b"e+" in to_json(1e16) else b"e"
_STRING_OR_FLOAT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.]*e[-+]?\d+', re.DOTALL)


def to_text(value: str) -> str:
    """Return the text to store for a string."""
    if "\0" in value or ESCAPE in value:
        return value.replace(ESCAPE, f"{ESCAPE}1").replace("\0", f"{ESCAPE}0")
    return value


def from_text(stored: str) -> str:
    """Return the string for a stored text."""
    if ESCAPE not in stored:
        return stored
    return stored.replace(f"{ESCAPE}0", "\0").replace(f"{ESCAPE}1", ESCAPE)


def json_text(value: object) -> str:
    """Return the JSON to store for a value; see `to_json_text`."""
    return to_json_text(to_json(value))


def to_json_text(json: bytes) -> str:
    """Return the JSON to store for JSON that pydantic wrote."""
    if b"\\u0000" in json or _ESCAPE in json:
        json = json.replace(_ESCAPE, _ESCAPE + b"1")
        # Between escaped backslashes, a backslash begins an escape.
        parts = json.split(rb"\\")
        json = rb"\\".join([part.replace(b"\\u0000", _ESCAPE + b"0") for part in parts])
    if _EXPONENT in json:
        json = _STRING_OR_FLOAT.sub(_in_full, json)
    return json.decode()


def json_array(parts: Sequence[bytes]) -> str | None:
    """Return an array of JSON to store, made of JSON that pydantic wrote; None if it is empty."""
    return f"[{','.join(map(to_json_text, parts))}]" if parts else None


def _in_full(token: re.Match[bytes]) -> bytes:
    if token[0][:1] == b'"':
        return token[0]
    value = float(token[0])
    # All digits of a large float, which is an integer, in a tenth of the time of formatting it.
    return b"%d.0" % int(value) if value.is_integer() else token[0]


def from_json_text(stored: str) -> str:
    """Return the original JSON for stored JSON as PostgreSQL writes it."""
    if ESCAPE not in stored:
        return stored
    return stored.replace(f"{ESCAPE}0", "\\u0000").replace(f"{ESCAPE}1", ESCAPE)
