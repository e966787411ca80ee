"""Any value of a program becomes one that every store can hold."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from jazzmine.records.storable import MAX_VALUE, storable_json, storable_text
from jazzmine.records.types import plain_json


class Order(BaseModel):
    id: int
    price: float
    day: date


class Color(Enum):
    RED = "red"


class Unprintable:
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            {"city": "Lisbon", "days": (1, 2.5, None, True)},
            {"city": "Lisbon", "days": [1, 2.5, None, True]},
        ),
        ([math.nan, -math.inf], ["nan", "-inf"]),
        ([2**63 - 1, 2**63, -(2**70)], [2**63 - 1, str(2**63), str(-(2**70))]),
        ("half \ud83d, whole \ud83d\ude00", "half \ufffd, whole \U0001f600"),
        ({"\udc00\0": 1}, {"\ufffd\ufffd": 1}),
        ({1: "a", "1": "b", None: "c"}, {"1": "a", "1'": "b", "None": "c"}),
        ({3, 1, 2}, [1, 2, 3]),
        (b"\xff", "_w=="),
        (datetime(2026, 11, 26, tzinfo=UTC), "2026-11-26T00:00:00Z"),
        ([Decimal("12.50"), Color.RED], ["12.50", "red"]),
        (
            Order.model_construct(id=2**70, price=math.nan, day=date(2026, 1, 2)),
            {"id": str(2**70), "price": "nan", "day": "2026-01-02"},
        ),
        (CYCLE, ["[[...]]"]),
        ({"a": Unprintable()}, {"a": "<Unserializable Unprintable object>"}),
    ],
    ids=lambda value: f"{type(value).__name__}",
)
def test_what_json_cannot_hold_becomes_text(value: object, expected: object) -> None:
    assert storable_json(value) == expected


def test_an_iterator_is_not_consumed() -> None:
    rows: Iterator[int] = iter([1, 2])
    assert isinstance(storable_json({"rows": rows}), dict)
    assert list(rows) == [1, 2]


@pytest.mark.parametrize(
    "value",
    [
        "x" * 1_000_000,
        ["x" * 60_000, {"id": 4711}],
        {"question": "x" * 10**6, "answer": "y" * 10**6, "id": 4711},
        list(range(10**6)),
        {str(number): {"key": [number]} for number in range(10**5)},
        [["x" * 1000] * 100] * 100,
        [[[CYCLE, CYCLE], CYCLE]] * 10**5,
        10**70_000,
        DEEP,
    ],
    ids=lambda value: f"{type(value).__name__}",
)
def test_a_long_value_is_cut_and_says_so(value: object) -> None:
    copied = storable_json(value)
    assert len(json.dumps(copied, ensure_ascii=False)) <= MAX_VALUE + 2
    plain_json({"tool_calls": [{"arguments": copied}]})
    if value is not DEEP:
        assert " cut]" in json.dumps(copied)


def test_what_stands_beside_a_long_text_is_kept() -> None:
    assert storable_json({"prompt": "x" * 10**6, "id": 4711})["id"] == 4711


def test_a_text_is_kept_as_it_is_up_to_its_limit() -> None:
    assert storable_text("x" * MAX_VALUE) == "x" * MAX_VALUE
    assert storable_text("x" * (MAX_VALUE + 1000)).endswith("… [1,000 characters cut]")
    assert len(storable_text("ä" * 10**6)) == MAX_VALUE
    assert (storable_text(None), storable_text(5), storable_text(Unprintable())) == (
        "",
        "5",
        "<Unprintable>",
    )


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.datetimes()
    | st.complex_numbers()
    | st.builds(object),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.integers() | st.none(), inner, max_size=4)
        | st.frozensets(st.integers() | st.text(), max_size=4)
    ),
)


@given(anything, st.integers(100, 2000))
def test_any_value_can_be_stored(value: object, limit: int) -> None:
    copied = storable_json(value, limit)
    assert plain_json(copied) == copied
    json.dumps(copied, ensure_ascii=False).encode()
