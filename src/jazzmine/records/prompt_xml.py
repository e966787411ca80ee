"""Escape text for the XML of a prompt."""

from __future__ import annotations

import re

# XML 1.0 cannot contain these characters, not even as a character reference.
_UNWRITABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

# A parser reads a carriage return as a line feed, and any white space in an attribute as a
# space: character references preserve them.
_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_IN_ATTRIBUTE = _IN_TEXT | str.maketrans({'"': "&quot;", "\n": "&#10;", "\t": "&#9;"})


def escape_text(text: str) -> str:
    """Return text escaped for use between tags; characters not in XML 1.0 become U+FFFD."""
    return _UNWRITABLE.sub("\ufffd", text).translate(_IN_TEXT)


def escape_attribute(text: str) -> str:
    """Return text escaped for use between double quotes in a tag, as in `escape_text`."""
    return _UNWRITABLE.sub("\ufffd", text).translate(_IN_ATTRIBUTE)
