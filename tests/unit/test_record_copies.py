"""Copies of stored records without validation are equal, and share no mutable object."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from jazzmine.backends.json.lines import read_message
from jazzmine.backends.json.record_reader import RecordReader
from jazzmine.backends.json.tables import MessageRow
from jazzmine.records import types
from jazzmine.records.base import Record, snapshot
from jazzmine.records.messages import Message
from jazzmine.records.record_copy import copy_record
from jazzmine.records.types import copy_json
from tests.behaviour.samples import conversation, full_message, full_trace, message, trace

NESTED = {"a": [1, {"b": [None, True, 1.5, "x"], "c": {}}, []], "d": {"e": {"f": [[]]}}}

RECORDS: list[Record] = [
    conversation(metadata=NESTED),
    conversation(),
    message(metadata=NESTED, explicit_context=[]),
    full_message(metadata=NESTED),
    trace(),
    full_trace(),
]


def parts(value: Any) -> Iterator[Any]:
    """Return all mutable objects in a value, including itself."""
    if isinstance(value, BaseModel):
        yield value
        yield value.__dict__
        for item in value.__dict__.values():
            yield from parts(item)
    elif isinstance(value, dict):
        yield value
        for item in value.values():
            yield from parts(item)
    elif isinstance(value, list):
        yield value
        for item in value:
            yield from parts(item)
    else:
        assert value is None or isinstance(value, (str, int, float, datetime, Enum))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_copy_is_equal_and_shares_nothing_that_can_be_changed(record: Record) -> None:
    copied = copy_record(record)

    assert copied == record
    assert copied.model_dump_json() == record.model_dump_json()
    assert not {id(part) for part in parts(copied)} & {id(part) for part in parts(record)}


class _WithASet(Record):
    names: set[str]


def test_a_copy_of_a_large_object_takes_no_longer_than_its_size_asks() -> None:
    small, large = {f"key {n}": n for n in range(100)}, {f"key {n}": n for n in range(3_000)}

    def cpu_time(value: object, times: int) -> float:
        started = time.process_time()
        for _ in range(times):
            assert copy_json(value) == value
        return time.process_time() - started

    # With a pass over all keys for each key it would be thirty times as long.
    assert cpu_time(large, 1) < 10 * cpu_time(small, 30)


def test_a_field_of_an_unknown_kind_is_refused_and_not_shared() -> None:
    with pytest.raises(TypeError, match=r"_WithASet\.names: no copy is known of"):
        copy_record(_WithASet(names=set()))


def test_a_copy_is_validated_and_copied_as_any_record_is() -> None:
    copied = copy_record(full_message())

    copied.intent = "changed"

    with pytest.raises(ValidationError):
        copied.sentiment_score = 2
    assert copied.model_copy(update={"intent": "other"}).intent == "other"
    assert snapshot(copied, Message).record == copied
    assert copied.model_fields_set == set(Message.model_fields)


# Which records are kept


def row(name: str) -> MessageRow:
    given = snapshot(message(name, metadata={"a": []}), Message)
    return MessageRow(given.record, given.json, 1)


def test_a_record_that_is_read_again_is_not_parsed_each_time() -> None:
    parsed = []

    def parse(line: bytes) -> Message:
        parsed.append(line)
        record: Message = read_message(line)
        return record

    reader, stored = RecordReader(parse), row("m1")

    read = [reader.again(stored) for _ in range(5)]
    listed = reader.once(stored)

    assert len(parsed) == 2
    assert all(each == message("m1", metadata={"a": []}) for each in [*read, listed])
    assert len({id(each) for each in [*read, listed]}) == 6
    assert len({id(each.metadata["a"]) for each in [*read, listed]}) == 6


def test_a_record_that_was_read_may_be_changed() -> None:
    reader, stored = RecordReader(read_message), row("m1")

    for _ in range(4):
        read = reader.again(stored)
        assert read.metadata == {"a": []}
        read.metadata["a"].append(1)
        read.intent = "changed"


def test_no_more_records_are_kept_than_the_limit_allows() -> None:
    rows = [row(f"m{number}") for number in range(10)]
    reader = RecordReader(read_message, limit=3 * len(rows[0].line))

    for _ in range(3):
        for each in rows:
            assert reader.again(each).id == each.id

    assert [each.id for each in rows if each.record is not None] == ["m7", "m8", "m9"]


def test_each_item_of_nested_data_is_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[Any] = []
    copy = types.copy_json

    def counting(value: Any) -> Any:
        copied.append(value)
        return copy(value)

    monkeypatch.setattr(types, "copy_json", counting)

    assert copy({"a": [1], "b": {"c": [2]}, "d": []}) == {"a": [1], "b": {"c": [2]}, "d": []}
    assert len(copied) == 4
