"""The replacements in stored records that break a rule, and what has no replacement."""

from __future__ import annotations

import json
import logging
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import Repairs, parse_json, plain_value, repaired
from jazzmine.records.traces import TurnTrace
from tests.behaviour.samples import conversation, full_trace, message

NAN, BIG = float("nan"), 2**64


def raw(**fields: Any) -> dict[str, Any]:
    return message().model_dump(mode="json") | fields


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_arguments_are_not_changed() -> None:
    given = raw(metadata={"a": [NAN]}, sentiment_score=NAN)
    before = repr(given)

    repaired(Message, given)

    assert repr(given) == before


def test_each_field_with_a_replacement_is_reported() -> None:
    given = raw(user_id="", metadata={"a": {"b": [1, NAN]}}, episode_id=BIG)

    _, replaced = repaired(Message, given)

    assert list(replaced) == ["user_id", "episode_id", "metadata"]
    assert replaced["metadata"].startswith("['a']['b'][1]: ")


def test_keys_that_become_the_same_stay_apart() -> None:
    assert plain_value({"a\0": 1, "a\ufffd": 2, f"a{chr(0xD800)}": 3}) == {
        "a\ufffd": 1,
        "a\ufffd\ufffd": 2,
        "a\ufffd\ufffd\ufffd": 3,
    }


def test_a_large_integer_in_a_text_is_its_decimal_text() -> None:
    record, _ = repaired(Message, raw(intent=BIG, errors=["a", -BIG]))

    assert (record.intent, record.errors) == (str(BIG), ["a", f"-{BIG}"])


def test_an_integer_that_python_does_not_parse_is_text() -> None:
    digits = "9" * 5_000

    assert parse_json(f'{{"a": [{digits}, -1]}}') == {"a": [digits, -1]}


def test_nan_as_the_text_that_a_database_writes_is_the_default() -> None:
    given = full_trace().model_dump(mode="json") | {
        "total_co2_g": "NaN",
        "sentiment_score": "-Infinity",
    }

    record, replaced = repaired(TurnTrace, given)

    assert (record.total_co2_g, record.sentiment_score) == (0.0, 0.0)
    assert list(replaced) == ["total_co2_g", "sentiment_score"]


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
        ({"metadata": {1: NAN}}, "metadata"),
        ({"metadata": {"a": NAN}, "colour": "red"}, "colour"),
        ({"entities": [{"name": "\ud800", "colour": NAN}]}, "entities.0.colour"),
        ({"explicit_context": [NAN]}, "explicit_context.0"),
        ({"metadata": {"deep": deep(2_000)}, "role": "king"}, "role"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_without_a_replacement_is_refused_by_its_name(
    fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Repairs().record(Message, raw(**fields))

    assert field in [".".join(map(str, error["loc"])) for error in caught.value.errors()]
    assert "'m1'" in caught.value.title


@pytest.mark.parametrize("name", ["id", "created_at", "last_updated_at"])
def test_a_missing_field_that_is_always_stored_gets_no_default(name: str) -> None:
    given = conversation().model_dump(mode="json")
    del given[name]

    with pytest.raises(ValidationError, match=name):
        Repairs().record(Conversation, given)


def test_the_log_holds_no_value(caplog: pytest.LogCaptureFixture) -> None:
    repairs = Repairs()
    with caplog.at_level(logging.WARNING):
        repairs.record(Message, raw(metadata={"key": [NAN, "secret"]}, intent="secret \ud800"))
        list(repairs.readable([raw(role="secret")], partial(repairs.record, Message)))

    assert len(caplog.records) == 3
    assert "secret" not in caplog.text


def test_the_number_of_remembered_log_entries_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    repairs = Repairs()
    for number in range(10_001):
        repairs.record(Message, raw(id=f"m{number}", user_id=""))

    assert len(repairs._logged) <= 10_000


def test_json_that_callers_parse_is_checked_as_values_are() -> None:
    text = json.dumps(raw(metadata={"a": BIG}))

    with pytest.raises(ValidationError, match="64 bits"):
        Message.model_validate_json(text)
