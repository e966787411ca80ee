"""The replacements in records of jazzmine 0.1.42, and what has no replacement."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.cli.adopting import mended
from jazzmine.records.messages import Conversation, Message
from tests.behaviour.samples import conversation, message

NAN, BIG = float("nan"), 2**64


def raw(**fields: Any) -> dict[str, Any]:
    return message().model_dump(mode="json") | fields


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_each_field_with_a_replacement_is_reported() -> None:
    given = raw(user_id="", metadata={"a": {"b": [1, NAN]}}, episode_id=BIG)

    _, replaced = mended(Message, given)

    assert list(replaced) == ["user_id", "episode_id", "metadata"]
    assert replaced["metadata"].startswith("['a']['b'][1]: ")


def test_keys_that_become_the_same_stay_apart() -> None:
    record, _ = mended(Message, raw(metadata={"a\0": 1, "a\ufffd": 2, f"a{chr(0xD800)}": 3}))

    assert record.metadata == {"a\ufffd": 1, "a\ufffd\ufffd": 2, "a\ufffd\ufffd\ufffd": 3}


def test_a_large_integer_in_a_text_is_its_decimal_text() -> None:
    record, _ = mended(Message, raw(intent=BIG, errors=["a", -BIG]))

    assert (record.intent, record.errors) == (str(BIG), ["a", f"-{BIG}"])


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"role": "king"}, "role"),
        ({"colour": "red"}, "colour"),
        ({"timestamp": NAN}, "timestamp"),
        ({"user_id": 5}, "user_id"),
        ({"sentiment_score": 1.5}, "sentiment_score"),
        ({"is_flagged": NAN, "original_content": None}, "original_content"),
        ({"metadata": {"at": datetime(2024, 1, 1), "n": NAN}}, "metadata"),
        ({"metadata": {"a": NAN}, "colour": "red"}, "colour"),
        ({"entities": [{"name": "\ud800", "colour": NAN}]}, "entities.0.colour"),
        ({"explicit_context": [NAN]}, "explicit_context.0"),
        ({"metadata": {"deep": deep(200)}, "role": "king"}, "role"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_without_a_replacement_is_refused_by_its_name(
    fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        mended(Message, raw(**fields))

    assert field in [".".join(map(str, error["loc"])) for error in caught.value.errors()]


@pytest.mark.parametrize("name", ["id", "created_at", "last_updated_at"])
def test_a_missing_field_that_is_always_stored_gets_no_default(name: str) -> None:
    given = conversation().model_dump(mode="json")
    del given[name]

    with pytest.raises(ValidationError, match=name):
        mended(Conversation, given)
