"""Words for people never fail, and never matter: what a tool returns, and what a message holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from jazzmine.adapters._items import Described, call_text, described, text_of
from jazzmine.records.messages import MessageRole


class Colour(Enum):
    RED = "red"


class Answer(BaseModel):
    city: str = "Lisbon"
    note: str | None = None


class Block(BaseModel):
    type: str = "text"
    text: str = "Hello"


@dataclass
class Place:
    name: str = "Lisbon"


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")

    __str__ = __repr__


DEEP: list[Any] = []
for _ in range(2000):
    DEEP = [DEEP]
CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("Hello", "Hello"),
        ([{"type": "text", "text": "one"}, {"type": "input_text", "text": "two"}], "one\ntwo"),
        ({"type": "refusal", "refusal": "No."}, "No."),
        ({"type": "input_image", "image_url": "data:"}, "[input_image]"),
        ({"type": "tool_use", "name": "f", "input": {"a": 1}}, 'f({"a":1})'),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, "f({})"),
        ({"type": "tool_result", "content": [{"type": "text", "text": "1"}]}, "1"),
        ({"type": "function_result", "result": {"a": 1}}, '{"a":1}'),
        ({"type": "reasoning", "reasoning": "It may rain."}, "It may rain."),
        ({"type": ["odd"]}, '{"type":["odd"]}'),
        (7, "7"),
        (Answer(), '{"city":"Lisbon","note":null}'),
        (Place(), '{"name":"Lisbon"}'),
        (date(2026, 11, 26), "2026-11-26"),
        (Decimal("1.50"), "1.50"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        ({"when": date(2026, 11, 26)}, '{"when":"2026-11-26"}'),
        ({"of": {3}}, '{"of":[3]}'),
        (Block(), "Hello"),
        ([Block(), {"type": "image"}], "Hello\n[image]"),
        (float("nan"), "nan"),
        (b"\xff", None),
        (object(), None),
        (Unspeakable(), None),
        ({"x": Unspeakable()}, None),
        (DEEP, None),
        (CYCLE, None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_content_has_a_text(value: object, text: str | None) -> None:
    found = text_of(value)

    assert isinstance(found, str)
    assert text is None or found == text
    assert isinstance(call_text("f", value), str)


def test_what_cannot_be_described_is_described_as_such() -> None:
    def describe(item: Any) -> Described:
        raise KeyError(item)

    found = described(describe, [1])

    assert found == (MessageRole.ASSISTANT, "[list without a description]", ())
