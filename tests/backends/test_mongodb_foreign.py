"""Documents of other programs with values that only MongoDB can store hide no other records."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import bson
import pytest
from bson.codec_options import DEFAULT_CODEC_OPTIONS
from bson.datetime_ms import DatetimeMS
from pydantic import ValidationError

from jazzmine.backends.mongodb.documents import to_row
from jazzmine.backends.mongodb.driver import LENIENT
from jazzmine.records.messages import Message
from jazzmine.records.rows import RowDecoder
from jazzmine.records.unreadable import Unreadable
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation, ids, message, trace
from tests.servers import mongodb

Config = dict[str, Any]


@pytest.fixture
def config() -> Iterator[Config]:
    with mongodb.database() as configuration:
        yield configuration


@pytest.fixture
def store(config: Config) -> Iterator[MessageStore]:
    with MessageStore.initialize(config) as opened:
        opened.store_conversation(conversation())
        opened.store_messages([message("m1", timestamp=1), message("m2", timestamp=2)])
        yield opened


def insert(config: Config, name: str, **fields: Any) -> None:
    document = message(name).model_dump(mode="json") | fields
    mongodb.client(config["uri"])[config["db"]]["messages"].insert_one(document)


@pytest.mark.parametrize(
    "timestamp",
    [None, "soon", float("nan"), float("inf"), datetime.datetime(2024, 1, 1), {"at": 1}],
    ids=["null", "text", "NaN", "infinity", "a date", "an object"],
)
def test_a_message_whose_time_is_no_number_hides_no_other(
    store: MessageStore, config: Config, timestamp: object
) -> None:
    insert(config, "odd", timestamp=timestamp)

    for size in (1, 2, 5):
        assert ids(store.iter_messages("c1", batch_size=size)) == ["m1", "m2"]
        assert ids(store.get_messages_by_user_id("u1", limit=2)) == ["m1", "m2"]
    assert ids(store.get_messages_by_conversation_id("c1", limit=1)) == ["m1"]
    assert ids(store.get_immediate_context("c1", 2)) == ["m1", "m2"]
    with pytest.raises(ValidationError, match=r"(?s)Message 'odd' .*timestamp"):
        store.get_message_by_id("odd")


# MongoDB accepts these two from any program; the test server does not.

READ = RowDecoder(Message, Unreadable())
OPTIONS = DEFAULT_CODEC_OPTIONS.with_options(**LENIENT)


def test_text_that_is_no_utf_8_is_read_with_replacement_characters() -> None:
    stored = bson.encode({"_id": 1, **message(original_content="--half--").model_dump(mode="json")})
    # Half of a surrogate pair, as programs write it that do not handle pairs.
    broken = stored.replace(b"--half--", b"--\xed\xa0\x80---")

    found = READ.record(to_row(bson.decode(broken, OPTIONS)))

    assert found.original_content == "--\ufffd\ufffd\ufffd---"


def test_a_date_beyond_the_years_of_python_is_reported_as_any_other_wrong_value() -> None:
    fields = message().model_dump(mode="json") | {"metadata": {"at": DatetimeMS(2**60)}}
    stored = bson.encode({"_id": 1, **fields})

    with pytest.raises(ValidationError, match=r"(?s)Message 'm1' .*metadata"):
        READ.record(to_row(bson.decode(stored, OPTIONS)))


@pytest.mark.parametrize("section", ["tool_traces", "slot_events", "llm_calls"])
@pytest.mark.parametrize("value", [None, 1, "text", {"a": 1}, [1], [None], [[]]])
def test_a_trace_of_another_shape_hides_no_other(
    store: MessageStore, config: Config, section: str, value: object
) -> None:
    store.store_turn_trace(trace("m1"))
    wrong = trace("m2").model_dump(mode="json") | {section: value}
    mongodb.client(config["uri"])[config["db"]]["turn_traces"].insert_one(wrong)

    assert store.get_turn_traces_by_conversation_id("c1") == [trace("m1")]
    with pytest.raises(ValidationError, match=section):
        store.get_turn_trace_by_message_id("m2")
