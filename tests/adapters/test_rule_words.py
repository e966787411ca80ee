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
from jazzmine.sync import MessageStore
from tests.adapters.frameworks import missing
from tests.adapters.test_rule_values import READERS


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


ODD = {
    "model": Answer(),
    "dataclass": Place(),
    "date": date(2026, 11, 26),
    "decimal": Decimal("1.50"),
    "uuid": UUID(int=1),
    "enum": Colour.RED,
    "set": {3},
    "block": {"type": "text", "text": "Hello"},
}


@pytest.mark.parametrize("cell", [(n, v) for n in READERS for v in ODD], ids=" ".join)
async def test_any_content_is_stored_with_its_words_or_refused(cell: tuple[str, str]) -> None:
    name, value = cell[0], ODD[cell[1]]
    if reason := missing(name):
        pytest.skip(reason)
    with MessageStore.initialize("memory:") as store:
        try:
            await READERS[name](store, value)
        except TypeError:
            # Stores that keep what they are given have no form for it.
            assert name in ("openai_agents", "strands", "claude_agent_sdk", "agent_framework")
            return
        (conversation, *_) = [
            conversation
            for conversation in store.get_conversations()
            if store.get_messages_by_conversation_id(conversation.id)
        ]
        said = store.get_messages_by_conversation_id(conversation.id)[-1]
    if name not in ("openai_agents", "agent_framework"):
        assert text_of(value) in said.original_content.replace('\\"', '"')


def test_what_cannot_be_described_is_described_as_such() -> None:
    def describe(item: Any) -> Described:
        raise KeyError(item)

    found = described(describe, [1])

    assert found == (MessageRole.ASSISTANT, "[list without a description]", ())
