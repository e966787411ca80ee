"""Rows become records, together or one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.records.messages import Message
from jazzmine.records.rows import Row, RowDecoder
from tests.behaviour.samples import full_message, ids, message

BODIES = {
    "bytes": lambda record: record.model_dump_json().encode(),
    "text": lambda record: record.model_dump_json(),
    "dict": lambda record: record.model_dump(mode="json"),
}


@pytest.fixture
def decoder() -> RowDecoder[Message]:
    return RowDecoder(Message)


@pytest.mark.parametrize("kind", BODIES)
def test_a_body_of_each_kind_is_read(decoder: RowDecoder[Message], kind: str) -> None:
    records = [full_message("m1"), message("m2")]
    rows: list[Row] = [(one.id, BODIES[kind](one)) for one in records]

    assert decoder.records(rows) == records
    assert decoder.record(rows[0]) == records[0]
    assert decoder.records([]) == []


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize(
    "change", [{"role": "king"}, {"timestamp": ...}, {"colour": "red"}], ids=repr
)
def test_a_row_that_cannot_be_read_hides_no_other(
    decoder: RowDecoder[Message], kind: str, change: dict[str, Any]
) -> None:
    raw = {**message("m2").model_dump(mode="json"), **change}
    wrong = {key: value for key, value in raw.items() if value is not ...}
    body: Any = wrong
    if kind != "dict":
        body = json.dumps(wrong) if kind == "text" else json.dumps(wrong).encode()
    rows = [("m1", BODIES[kind](message("m1"))), (b"m2", body), ("m3", BODIES[kind](message("m3")))]

    assert ids(decoder.records(rows)) == ["m1", "m3"]
    with pytest.raises(ValidationError, match="m2"):
        decoder.record(rows[1])


@pytest.mark.parametrize("body", [b"{", "[]", b"null"], ids=repr)
def test_a_body_that_is_no_object_is_refused_by_its_id(
    decoder: RowDecoder[Message], body: bytes | str
) -> None:
    with pytest.raises(ValidationError, match="m1"):
        decoder.record((b"m1", body))
