"""Values that a layer of a back end may handle wrongly."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

__all__ = ["IMPOSSIBLE_VALUES", "KEYS", "TEXTS", "VALUES", "nested"]


def nested(levels: int) -> Any:
    """Return nested lists."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


TEXTS = [
    pytest.param("\0", id="U+0000"),
    pytest.param("a\0b\0", id="U+0000 within"),
    pytest.param("\\u0000 \\0 \\x00 \\\\", id="escapes spelt out"),
    pytest.param("\\", id="a backslash"),
    pytest.param("".join(map(chr, range(1, 32))), id="control characters"),
    pytest.param("\x7f\x80\x9f\xa0\xad\u2028\u2029", id="more control characters"),
    pytest.param(" \t ", id="blanks"),
    pytest.param("\U0001f686\U0001f468\u200d\U0001f469\u200d\U0001f467", id="astral"),
    pytest.param("\U0010ffff\ufffe\uffff\ufdd0\ufffd\ufeff", id="noncharacters"),
    pytest.param("e\u0301\u202etxt.exe\u200b", id="combining, right to left, zero width"),
    pytest.param("İıſßΣς", id="letters whose case is tricky"),
    pytest.param("'; DROP TABLE messages; -- \"`´’", id="SQL and quotes"),
    pytest.param("%s %(name)s %% ${x} {0} {} {{}} $1 :id ?", id="placeholders"),
    pytest.param("$where", id="an operator"),
    pytest.param("a.b.$c", id="a path of keys"),
    pytest.param('{"$ne": null}', id="a query"),
    pytest.param("../../etc/passwd", id="a path"),
    pytest.param("*?[a-z]^.+(", id="a pattern"),
    pytest.param("{c1}{", id="braces"),
    pytest.param("null", id="null"),
    pytest.param("\nGET / HTTP/1.1\r\n\r\n</script><!--", id="a request and markup"),
    pytest.param("x" * 100_000, id="100 kB"),
    pytest.param("\u20ac\0" * 2_000, id="many U+0000"),
]

KEYS = ["", " ", "$", "$where", "a.b", ".", "__proto__", "_id", "id", "é", "\U0001f686", "\x01"]

VALUES = [
    pytest.param(None, id="null"),
    pytest.param(True, id="true"),
    pytest.param(False, id="false"),
    pytest.param(0, id="0"),
    pytest.param(-1, id="-1"),
    pytest.param(2**31, id="2**31"),
    pytest.param(2**53 + 1, id="2**53 + 1"),
    pytest.param(2**63 - 1, id="the largest integer"),
    pytest.param(-(2**63), id="the smallest integer"),
    pytest.param(1.0, id="1.0"),
    pytest.param(0.1, id="0.1"),
    pytest.param(1 / 3, id="a third"),
    pytest.param(1e22, id="1e22"),
    pytest.param(1.7976931348623157e308, id="the largest float"),
    pytest.param(5e-324, id="the smallest float"),
    pytest.param("", id="empty text"),
    pytest.param("2024-02-29T00:00:00Z", id="text of a date"),
    pytest.param([], id="empty list"),
    pytest.param({}, id="empty object"),
    pytest.param([None, [[], {}], {"a": [1, 2.5, "x", None, False]}], id="lists and objects"),
    pytest.param({key: key for key in KEYS}, id="strange keys"),
    pytest.param({"$date": "2024", "$oid": "0" * 24, "$numberLong": "1"}, id="extended JSON"),
    pytest.param({"a": 1, "A": 2, "á": 3}, id="similar keys"),
    pytest.param(list(range(2000)), id="a long list"),
]

IMPOSSIBLE_VALUES = [
    pytest.param(object(), id="a live object"),
    pytest.param(print, id="a function"),
    pytest.param(float("nan"), id="NaN"),
    pytest.param(float("inf"), id="infinity"),
    pytest.param(float("-inf"), id="minus infinity"),
    pytest.param({1, 2}, id="a set"),
    pytest.param(b"bytes", id="bytes"),
    pytest.param(1j, id="a complex number"),
    pytest.param(Decimal("1.5"), id="a decimal"),
    pytest.param(datetime(2024, 2, 29, tzinfo=timezone.utc), id="a datetime"),
    pytest.param(2**63, id="an integer beyond 64 bits"),
    pytest.param(-(2**63) - 1, id="a negative integer beyond 64 bits"),
    pytest.param("\ud800", id="a lone surrogate"),
    pytest.param("a\udc00", id="a lone low surrogate"),
    pytest.param({1: "one"}, id="a key that is no string"),
    pytest.param({None: "none"}, id="a key that is None"),
    pytest.param({"a\0b": 1}, id="a key with U+0000"),
    pytest.param({"\ud800": 1}, id="a key with a lone surrogate"),
    pytest.param(nested(65), id="nesting of 65 levels"),
    pytest.param({"deep": [{"er": [float("nan")]}]}, id="NaN deep within"),
]
