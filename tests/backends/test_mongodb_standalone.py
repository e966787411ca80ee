"""On a server without transactions, a write that ends after any step leaves no orphan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pymongo.errors import BulkWriteError, OperationFailure

from jazzmine.errors import IntegrityError
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation, ids, message, messages, trace
from tests.servers import mongodb

Config = dict[str, Any]

# The code of an operation that was interrupted, which no driver repeats.
INTERRUPTED = 11601


@pytest.fixture
def config() -> Iterator[Config]:
    with mongodb.database(mongodb.running("--standalone").url) as configuration:
        yield configuration


@pytest.fixture
def store(config: Config) -> Iterator[MessageStore]:
    with MessageStore.initialize(config) as opened:
        yield opened


def fail(config: Config, command: str, skipped: int) -> None:
    """Let the server refuse a command, after so many that it does not."""
    mode = {"skip": skipped, "times": 1} if skipped else {"times": 1}
    data = {"failCommands": [command], "errorCode": INTERRUPTED}
    admin = mongodb.client(config["uri"]).admin
    admin.command("configureFailPoint", "failCommand", mode=mode, data=data)


def assert_no_orphans(config: Config) -> None:
    database = mongodb.client(config["uri"])[config["db"]]
    conversations = set(database["conversations"].distinct("id"))
    stored = set(database["messages"].distinct("id"))
    assert set(database["messages"].distinct("conversation_id")) <= conversations
    assert set(database["turn_traces"].distinct("message_id")) <= stored


TURN: Callable[[MessageStore], Any] = lambda store: store.store_turn(  # noqa: E731
    conversation=conversation(), messages=messages("m1", "m2"), trace=trace("m2", id="new")
)


@pytest.mark.parametrize("skipped", range(3))
def test_a_turn_that_ends_half_way_is_completed_by_repeating_it(
    store: MessageStore, config: Config, skipped: int
) -> None:
    fail(config, "update", skipped)

    with pytest.raises(OperationFailure):
        TURN(store)
    assert_no_orphans(config)
    TURN(store)

    assert ids(store.get_messages_by_conversation_id("c1")) == ["m1", "m2"]
    assert ids(store.get_turn_traces_by_conversation_id("c1")) == ["new"]


def test_messages_of_which_one_is_refused_are_reported_and_completed_by_repeating_them(
    store: MessageStore, config: Config
) -> None:
    store.store_conversation(conversation())
    stored = mongodb.client(config["uri"])[config["db"]]["messages"]
    stored.create_index("intent", unique=True)
    given = messages("m1", "m2", "m3", intent="the same")

    with pytest.raises((BulkWriteError, IntegrityError), match="intent"):
        store.store_messages(given)
    assert ids(store.get_messages_by_conversation_id("c1")) == ["m1"]

    stored.drop_index("intent_1")
    store.store_messages(given)
    assert ids(store.get_messages_by_conversation_id("c1")) == ["m1", "m2", "m3"]


@pytest.mark.parametrize("command", ["delete", "update"])
def test_a_replaced_trace_that_ends_half_way_is_completed_by_repeating_it(
    store: MessageStore, config: Config, command: str
) -> None:
    store.store_turn(conversation=conversation(), messages=[message()], trace=trace(id="old"))
    fail(config, command, 0)

    with pytest.raises(OperationFailure):
        store.store_turn_trace(trace(id="new"))
    assert_no_orphans(config)
    store.store_turn_trace(trace(id="new"))

    assert ids(store.get_turn_traces_by_conversation_id("c1")) == ["new"]


@pytest.mark.parametrize("skipped", range(3))
def test_a_deletion_that_ends_half_way_is_completed_by_repeating_it(
    store: MessageStore, config: Config, skipped: int
) -> None:
    TURN(store)
    fail(config, "delete", skipped)

    with pytest.raises(OperationFailure):
        store.delete_conversation("c1")
    assert_no_orphans(config)

    assert store.delete_conversation("c1")
    assert store.get_messages_by_ids(["m1", "m2"]) == []
    assert store.get_turn_trace_by_id("new") is None


@pytest.mark.parametrize("skipped", range(2))
def test_a_message_whose_deletion_ends_half_way_is_deleted_by_repeating_it(
    store: MessageStore, config: Config, skipped: int
) -> None:
    TURN(store)
    fail(config, "delete", skipped)

    with pytest.raises(OperationFailure):
        store.delete_message("m2")
    assert_no_orphans(config)

    assert store.delete_message("m2")
    assert store.get_turn_trace_by_id("new") is None
