"""The documents of records in MongoDB, including those that jazzmine 0.1 stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pymongo.errors import BulkWriteError

from jazzmine import IntegrityError, RecordTooLargeError
from jazzmine.backends.mongodb import documents
from jazzmine.sync.message_store import MessageStore, TraceFilter
from tests.behaviour.samples import (
    conversation,
    ids,
    message,
    messages,
    tool_trace,
    trace,
)
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
        yield opened


def collection(config: Config, name: str) -> Any:
    return mongodb.client(config["uri"])[config["db"]][name]


NAMES = {"$ref": "#/a", "$id": 1, "a.b": 2, "": 3, "$set": {"$x": [{"$y": 4}]}, "＄": 5, "＄$": 6}


def test_names_that_mean_something_to_mongodb_come_back_as_they_were(store: MessageStore) -> None:
    stored = message(metadata=NAMES)
    tools = [tool_trace(final_data=NAMES, intermediates=[NAMES])]
    traced = trace(tool_traces=tools, metadata=NAMES)
    store.store_turn(messages=[stored], trace=traced)

    assert store.get_message_by_id("m1") == stored
    assert store.get_turn_trace_by_message_id("m1") == traced
    assert ids(store.find_turn_traces(TraceFilter(tool={"final_data": NAMES}))) == [traced.id]


def test_a_conversation_of_version_1_2_is_read_and_edited(
    store: MessageStore, config: Config
) -> None:
    collection(config, "conversations").update_one({}, {"$set": {"log_lock": 7}})

    assert store.get_conversation_by_id("c1") == conversation()
    assert store.edit_conversation("c1", title="new").title == "new"
    assert [found.title for found in store.get_conversations()] == ["new"]


def test_no_name_that_is_stored_begins_with_a_dollar() -> None:
    def names(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from value
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, (dict, list)):
                yield from names(item)

    assert not [name for name in names(documents.escaped(NAMES)) if name.startswith("$")]


def test_a_record_of_16_mib_is_refused_and_no_other_record(store: MessageStore) -> None:
    large = message("large", original_content="x" * 16 * 2**20)

    with pytest.raises(RecordTooLargeError, match="large"):
        store.store_messages([message("m1"), large])

    assert store.get_messages_by_conversation_id("c1") == []


def test_a_bulk_that_the_server_refuses_in_part_is_reported_and_stores_nothing(
    store: MessageStore, config: Config
) -> None:
    collection(config, "messages").create_index("intent", unique=True)

    with pytest.raises((BulkWriteError, IntegrityError)) as raised:
        store.store_messages(messages("m1", "m2", intent="the same"))

    assert "intent" in str(raised.value)
    assert store.get_messages_by_conversation_id("c1") == []
