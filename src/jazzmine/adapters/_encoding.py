"""Items as JSON text, in which nothing of an item is lost."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

# Values that JSON has no form for are objects with one of these keys.
_BYTES, _TEXT, _TUPLE, _PAIRS = "$bytes", "$text", "$tuple", "$pairs"
_TAGS = frozenset({_BYTES, _TEXT, _TUPLE, _PAIRS})

_TYPES = frozenset({str, bool, int, float, type(None), dict, list, tuple, bytes})

# Deeper items are refused when they are stored, because reading them back could exceed the
# limit on recursion.
_MAX_DEPTH = 200


def encoded(item: object, *, other: Callable[[Any], object] | None = None) -> str:
    """Return an item as JSON text, from which `decoded` makes an equal one.

    Args:
        item: dicts, lists, tuples, str, bytes, bool, int, float and None, nested. Keys of any of
            these simple types, lone surrogates, NaN and integers of any size are allowed.
        other: returns what is stored in place of a value of another type.

    Raises:
        TypeError: the item holds a value of another type, and `other` is None.
        ValueError: it is nested more than 200 levels deep, or holds an integer of more digits
            than Python converts.
    """
    tagged = _tagged(item, 0, other)
    return json.dumps(tagged, ensure_ascii=False, separators=(",", ":"))


def decoded(text: str) -> Any:
    """Return the item that `encoded` was given."""
    decode = _decode_tagged if '"$' in text else _decode_plain
    return decode(text)[0]


def _tagged(value: object, depth: int, other: Callable[[Any], object] | None) -> object:
    # A member of an enum, or another subclass, is not what JSON makes of it.
    if other is not None and type(value) not in _TYPES:
        value = other(value)
    if isinstance(value, str):
        return value if value.isascii() or _is_utf8(value) else {_TEXT: _base64(value)}
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth == _MAX_DEPTH:
        raise ValueError(f"the item is nested more than {_MAX_DEPTH} levels deep")
    if isinstance(value, dict):
        if all(isinstance(key, str) and _is_utf8(key) for key in value) and not (
            len(value) == 1 and _TAGS & value.keys()
        ):
            return {key: _tagged(element, depth + 1, other) for key, element in value.items()}
        pairs = [[_tagged(element, depth + 1, other) for element in pair] for pair in value.items()]
        return {_PAIRS: pairs}
    if isinstance(value, list | tuple):
        values = [_tagged(element, depth + 1, other) for element in value]
        return values if isinstance(value, list) else {_TUPLE: values}
    if isinstance(value, bytes):
        return {_BYTES: b64encode(value).decode()}
    raise TypeError(f"an item cannot hold a value of type {type(value).__name__}")


def _untagged(found: dict[str, Any]) -> Any:
    if len(found) != 1:
        return found
    ((key, value),) = found.items()
    if key == _BYTES:
        return b64decode(value)
    if key == _TEXT:
        return b64decode(value).decode("utf-8", "surrogatepass")
    if key == _TUPLE:
        return tuple(value)
    if key == _PAIRS:
        return dict(value)
    return found


# `JSONDecoder.decode` looks for white space as well, which takes longer than a short item itself.
_decode_plain = json.JSONDecoder().raw_decode
_decode_tagged = json.JSONDecoder(object_hook=_untagged).raw_decode


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _base64(text: str) -> str:
    return b64encode(text.encode("utf-8", "surrogatepass")).decode()


def readable(text: str) -> str:
    """Return text as a message can hold it: with U+FFFD in place of each lone surrogate."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
