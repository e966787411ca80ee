"""The documents of MongoDB: unusual values, errors of the server, a server without transactions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import bson
import pytest
from bson.codec_options import DEFAULT_CODEC_OPTIONS
from bson.datetime_ms import DatetimeMS

from jazzmine import ConflictError, IntegrityError, RecordTooLargeError, StoreUnavailableError
from jazzmine._sync.message_store import mongodb_backend
from jazzmine.backends.mongodb.driver import LENIENT
from jazzmine.sync.message_store import MessageStore, TraceFilter
from tests.behaviour.samples import conversation, ids, message, messages, tool_trace, trace
from tests.cli.program import run
from tests.servers import mongodb

Config = dict[str, Any]


@pytest.fixture
def store(mongodb_config: Config) -> Iterator[MessageStore]:
    with MessageStore.initialize(mongodb_config) as opened:
        opened.store_conversation(conversation())
        yield opened


NAMES = {"$ref": "#/a", "$id": 1, "a.b": 2, "": 3, "$set": {"$x": [{"$y": 4}]}, "＄": 5, "＄$": 6}


def test_names_that_mean_something_to_mongodb_come_back_as_they_were(store: MessageStore) -> None:
    stored = message(metadata=NAMES)
    tools = [tool_trace(final_data=NAMES, intermediates=[NAMES])]
    traced = trace(tool_traces=tools, metadata=NAMES)
    store.store_turn(messages=[stored], trace=traced)

    assert store.get_message_by_id("m1") == stored
    assert store.get_turn_trace_by_message_id("m1") == traced
    assert ids(store.find_turn_traces(TraceFilter(tool={"final_data": NAMES}))) == [traced.id]


def test_a_conversation_of_version_1_2_is_read(store: MessageStore, mongodb_config: Config) -> None:
    database = mongodb.client(mongodb_config["uri"])[mongodb_config["db"]]
    database["conversations"].update_one({}, {"$set": {"log_lock": 7}})

    assert store.get_conversation_by_id("c1") == conversation()


def test_a_record_of_16_mib_is_refused_and_no_other_record(store: MessageStore) -> None:
    for size in (16, 17):  # the server refuses the one, and the driver the other
        large = message("large", original_content="x" * size * 2**20)
        with pytest.raises(RecordTooLargeError):
            store.store_messages([message("m1"), large] if size == 16 else [large])

    assert store.get_messages_by_conversation_id("c1") == []


def test_a_value_that_python_cannot_hold_makes_no_document_unreadable() -> None:
    fields = {"text": "--half--", "at": DatetimeMS(2**60)}
    # Half of a surrogate pair, as programs write it that do not handle pairs.
    stored = bson.encode(fields).replace(b"--half--", b"--\xed\xa0\x80---")

    found = bson.decode(stored, DEFAULT_CODEC_OPTIONS.with_options(**LENIENT))

    assert found == {**fields, "text": "--\ufffd\ufffd\ufffd---"}


def test_a_trace_of_another_shape_hides_no_other_from_filters_and_sums(
    store: MessageStore, mongodb_config: Config
) -> None:
    store.store_turn(messages=[message()], trace=trace(tool_traces=[tool_trace(sandbox="s")]))
    wrong = {"tool_traces": 5, "llm_calls": None, "errors": "?"}
    database = mongodb.client(mongodb_config["uri"])[mongodb_config["db"]]
    database["turn_traces"].insert_one(trace("m2").model_dump(mode="json") | wrong)

    assert len(store.find_turn_traces(TraceFilter(tool={"sandbox": "s"}))) == 1
    assert [one.turns for one in store.summarize_usage(TraceFilter(), by="agent")] == [1]


# Errors of the server

CALLS: dict[str, Callable[[MessageStore], object]] = {
    "a read": lambda store: store.get_message_by_id("m1"),
    "a list": lambda store: store.get_messages_by_conversation_id("c1"),
    "a write": lambda store: store.store_message(message("m3")),
    "a transaction": lambda store: store.append_messages("c1", [message("m3")]),
    "an erasure": lambda store: store.erase_user("u1"),
}
# Internal error, unauthorized, time limit, write concern, no such transaction, full disk.
CODES = [1, 13, 50, 64, 251, 14031]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_each_error_of_the_server_is_one_of_ours(
    mongodb_config: Config, call: Callable[[MessageStore], object], code: int
) -> None:
    commands = ["find", "update", "insert", "delete", "aggregate"]
    with MessageStore.initialize({**mongodb_config, "timeout": 0.5}) as store:
        mongodb.fail(mongodb_config["uri"], commands, "alwaysOn", errorCode=code)
        try:
            with pytest.raises(StoreUnavailableError) as raised:
                call(store)
        finally:
            mongodb.fail(mongodb_config["uri"], commands, "off")
    assert raised.value.__cause__ is not None


def test_the_doctor_finds_and_deletes_what_a_deletion_beside_a_write_has_left(
    store: MessageStore, mongodb_config: Config
) -> None:
    url = f"{mongodb_config['uri']}/{mongodb_config['db']}"
    with MessageStore.initialize(mongodb_config) as other:
        other.store_message(message("m3"))  # knows the conversation from now on
        store.delete_conversation("c1")
        other.store_message(message("m4"))
        other.store_turn_trace(trace("m4"))
        other.store_conversation(conversation("c2"))
        other.store_message(message("m5", conversation_id="c2"))

    found = run("doctor", "--store", url)
    mended = run("doctor", "--mend", "--store", url)
    again = run("doctor", "--store", url)

    assert "messages of 'c1'" in found.output
    assert "2 records were deleted" in mended.output
    assert "each message has its conversation" in again.output
    assert store.get_message_by_id("m4") is None
    assert store.get_message_by_id("m5") is not None


def test_a_store_learns_after_a_while_that_another_one_has_deleted_a_conversation(
    store: MessageStore, mongodb_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mongodb_backend, "KNOWN_SECONDS", 0.05)
    with MessageStore.initialize(mongodb_config) as other:
        other.store_message(message("m3"))
        store.delete_conversation("c1")
        time.sleep(0.06)

        with pytest.raises(IntegrityError):
            other.store_message(message("m4"))


# A server without transactions


def test_a_standalone_server_is_named_in_the_log_and_serves_the_calls_of_several_documents(
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = mongodb.running("--standalone").url
    with mongodb.database(url) as mongodb_config, MessageStore.initialize(mongodb_config) as store:
        store.store_turn(conversation=conversation(), messages=messages("m1"), trace=trace("m1"))
        store.append_messages("c1", messages("m2", "m3"), expected_last="m1")
        with pytest.raises(ConflictError):
            store.append_messages("c1", messages("m4"), expected_last="m1")
        store.append_messages("c1", messages("m2", "m3"), expected_last="m1")  # was done already
        new_ids = store.fork_conversation("c1", conversation("c2"))
        store.rewind_conversation("c1", after="m2")

        assert ids(store.get_messages_by_conversation_id("c1")) == ["m1", "m2"]
        assert ids(store.get_messages_by_conversation_id("c2")) == list(new_ids.values())
        assert store.delete_conversation("c1")
        assert store.get_turn_traces_by_conversation_id("c1") == []
        assert store.erase_user("u1").messages == 3

    warnings = [one.message for one in caplog.records if one.levelno == logging.WARNING]
    [said] = [one for one in warnings if "standalone" in one]
    assert "replica set of one server" in said
