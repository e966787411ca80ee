"""Values that a layer of a back end may handle wrongly."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest


def nested(levels: int) -> Any:
    """Return nested lists."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


# Each has what one layer may handle wrongly: a few long texts find what many short ones would.
TEXTS = [
    "\0",
    "\u20ac\0" * 2_000,
    "\\u0000 \\0 \\x00 \\\\ \\",
    "".join(map(chr, range(1, 33))) + "\x7f\x80\x9f\xa0\xad\u2028\u2029 \t ",
    "\U0001f686\U0001f468\u200d\U0001f469\u200d\U0001f467\U0010ffff\ufffe\uffff\ufdd0\ufffd\ufeff"
    "e\u0301\u202etxt.exe\u200bİıſßΣς",
    "'; DROP TABLE messages; -- \"`´’ %s %(name)s %% ${x} {0} {} {{}} $1 :id ?",
    "$where",
    'a.b.$c {"$ne": null} ../../etc/passwd *?[a-z]^.+({c1}{',
    "null",
    "\nGET / HTTP/1.1\r\n\r\n</script><!--",
    "x" * 100_000,
]

KEYS = ["", " ", "$", "$where", "a.b", ".", "__proto__", "_id", "id", "é", "\U0001f686", "\x01"]

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    2**31,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    1.0,
    0.1,
    1 / 3,
    1e22,
    1.7976931348623157e308,
    5e-324,
    "",
    "2024-02-29T00:00:00Z",
    [],
    {},
    [None, [[], {}], {"a": [1, 2.5, "x", None, False]}],
    {key: key for key in KEYS},
    {"$date": "2024", "$oid": "0" * 24, "$numberLong": "1"},
    {"a": 1, "A": 2, "á": 3},
    list(range(2000)),
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
    pytest.param(datetime(2024, 2, 29, tzinfo=UTC), id="a datetime"),
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

# A stored value, and one that a filter asks for: equal in JSON, or different.
EQUAL: list[tuple[Any, Any]] = [
    (1, 1.0),
    (2.0, 2),
    (0, -0.0),
    (0.1, 0.1),
    (1e22, 1e22),
    (2**63 - 1, 2**63 - 1),
    (True, True),
    (None, None),
    ("", ""),
    ("\0", "\0"),
    ("é\U0001f686", "é\U0001f686"),
    ([1, [2.0, "x"]], [1.0, [2, "x"]]),
    ([], []),
    ({}, {}),
    ({"a": {"b": 1}, "c": None}, {"c": None, "a": {"b": 1.0}}),
    ({"$gt": {"$b": "$c"}}, {"$gt": {"$b": "$c"}}),
    ({"a.b": "c", "": 1}, {"a.b": "c", "": 1}),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (1, True),
    (True, 1),
    (0, False),
    (False, 0.0),
    (None, False),
    (None, 0),
    (1, "1"),
    ("1", 1),
    ("a", "A"),
    ("a", "a "),
    ("é", "e\u0301"),
    (2**63 - 1, 2**63 - 2),
    (2**53 + 1, 2**53),
    ([1, 2], [2, 1]),
    ([1, 2], [1]),
    ([1, 2], 1),
    ([True], [1]),
    ([{"x": None}], [{}]),
    ([], None),
    ([], {}),
    ({}, None),
    ({"a": 1, "b": 2}, {"a": 1}),
    ({"a": {"b": 1}}, {"a": {}}),
    ({"a": {"b": 1}}, {"a.b": 1}),
    ({"a": 1}, {"a": True}),
    ({"a": 5}, {"$gt": 1}),
    ({"a": 1}, {"a": {"$exists": True}}),
    ("abc", {"$regex": "a"}),
    ("abc", "a%"),
    ("abc", ".*"),
]
