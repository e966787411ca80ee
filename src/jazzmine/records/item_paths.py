"""The path of an item: one text for its namespace and key, which sorts as they do.

Each part of the namespace ends with U+0001, and one more U+0001 precedes the key. So a text of code
points sorts as the tuple of the parts, and all items below a prefix have paths in one range. U+0000
(not every back end can store it), U+0001 and U+0002 are escaped with U+0002.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_END, _ESCAPE = "\x01", "\x02"
_SPECIAL = re.compile("[\0\x01\x02]")
_ESCAPED = re.compile("\x02(.)", re.DOTALL)


def path_of(namespace: Iterable[str], key: str) -> str:
    """Return the path of an item."""
    return f"{namespace_path(namespace)}{_END}{_escaped(key)}"


def namespace_path(namespace: Iterable[str]) -> str:
    """Return the common beginning of the paths of all items in and below a namespace."""
    return "".join(f"{_escaped(part)}{_END}" for part in namespace)


def end_of(namespace: str) -> str:
    """Return the first text after all paths in and below a namespace of at least one part."""
    return f"{namespace[:-1]}{_ESCAPE}"


def after_items(namespace: str) -> str:
    """Return the first text after all paths in a namespace; the paths below it follow."""
    return f"{namespace}{_ESCAPE}"


def split_path(path: str) -> tuple[tuple[str, ...], str]:
    """Return the namespace and the key of a path."""
    namespace, _, key = path.partition(_END * 2)
    return tuple(map(_unescaped, namespace.split(_END))), _unescaped(key)


def split_namespace(path: str) -> tuple[str, ...]:
    """Return the namespace that `namespace_path` has encoded."""
    return tuple(map(_unescaped, path.split(_END)[:-1]))


def _escaped(part: str) -> str:
    if part.isprintable():
        return part
    return _SPECIAL.sub(lambda found: f"{_ESCAPE}{chr(ord(found[0]) + 2)}", part)


def _unescaped(part: str) -> str:
    if _ESCAPE not in part:
        return part
    return _ESCAPED.sub(lambda found: chr(ord(found[1]) - 2), part)
