"""On a server without transactions, a write that ends after any step leaves no orphan."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from bson import ObjectId
from pymongo.errors import BulkWriteError, OperationFailure

from jazzmine.errors import (
    ConflictError,
    IntegrityError,
    NotFoundError,
    StoreUnavailableError,
)
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation, ids, message, messages, trace
from tests.servers import mongodb

Config = dict[str, Any]

# The code of an interrupted operation, which drivers do not repeat.
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
    """Make the server refuse a command after the given number of successful ones."""
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


def store_turn(store: MessageStore) -> None:
    store.store_turn(
        conversation=conversation(), messages=messages("m1", "m2"), trace=trace("m2", id="new")
    )


@pytest.mark.parametrize("skipped", range(3))
def test_a_turn_that_ends_half_way_is_completed_by_repeating_it(
    store: MessageStore, config: Config, skipped: int
) -> None:
    fail(config, "update", skipped)

    with pytest.raises(OperationFailure):
        store_turn(store)
    assert_no_orphans(config)
    store_turn(store)

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
    store_turn(store)
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
    store_turn(store)
    fail(config, "delete", skipped)

    with pytest.raises(OperationFailure):
        store.delete_message("m2")
    assert_no_orphans(config)

    assert store.delete_message("m2")
    assert store.get_turn_trace_by_id("new") is None


# A conversation as a log


def chat_of(store: MessageStore, *names: str) -> None:
    store.store_conversation(conversation())
    store.store_messages(messages(*names))


def leases(config: Config) -> list[Any]:
    found = mongodb.client(config["uri"])[config["db"]]["conversations"]
    return [document["log_lock"] for document in found.find({"log_lock": {"$exists": True}})]


def leave_a_lease(config: Config, seconds: float, **left: Any) -> None:
    """Leave the lease of a process that was killed."""
    now = [{"$set": {"now": {"$toLong": "$$NOW"}}}]
    database = mongodb.client(config["uri"])[config["db"]]
    clock = database["clock"].find_one_and_update({}, now, upsert=True, return_document=True)
    assert clock is not None
    lease = {"token": ObjectId(), "until": clock["now"] + round(seconds * 1000), **left}
    database["conversations"].update_one({"id": "c1"}, {"$set": {"log_lock": lease}})


LOG_CALLS: dict[str, Callable[[MessageStore], Any]] = {
    "append": lambda store: store.append_messages("c1", [message("m3")]),
    "several": lambda store: store.append_messages("c1", messages("m3", "m4")),
    "nothing new": lambda store: store.append_messages("c1", [message("m1")]),
    "pop": lambda store: store.pop_message("c1"),
    "rewind": lambda store: store.rewind_conversation("c1", after="m1"),
    "fork": lambda store: store.fork_conversation("c1", conversation("c2")),
}


@pytest.mark.parametrize("call", LOG_CALLS.values(), ids=LOG_CALLS)
def test_no_lease_is_left_after_a_call(
    store: MessageStore, config: Config, call: Callable[[MessageStore], Any]
) -> None:
    chat_of(store, "m1", "m2")

    call(store)

    assert leases(config) == []


def test_no_lease_is_left_after_a_refused_call(store: MessageStore, config: Config) -> None:
    chat_of(store, "m1")

    with pytest.raises(ConflictError):
        store.append_messages("c1", [message("m2")], expected_last="m0")
    with pytest.raises(NotFoundError):
        store.rewind_conversation("c1", after="m0")
    with pytest.raises(ConflictError):
        store.fork_conversation("c1", conversation("c1"))

    assert leases(config) == []


@pytest.mark.parametrize("call", LOG_CALLS.values(), ids=LOG_CALLS)
def test_a_call_waits_until_the_lease_of_a_killed_process_has_expired(
    store: MessageStore, config: Config, call: Callable[[MessageStore], Any]
) -> None:
    chat_of(store, "m1", "m2")
    leave_a_lease(config, 1.0)
    started = time.monotonic()

    call(store)

    assert time.monotonic() - started > 0.5
    assert leases(config) == []


def test_a_lease_does_not_expire_because_the_conversation_is_stored(
    store: MessageStore, config: Config
) -> None:
    chat_of(store)
    leave_a_lease(config, 60)

    store.store_conversation(conversation(title="new"))
    store.store_turn(conversation=conversation(title="newer"), messages=[message("m1")])

    assert len(leases(config)) == 1
    assert store.get_conversation_by_id("c1") == conversation(title="newer")


def test_a_call_that_never_gets_the_lease_ends_at_its_deadline(config: Config) -> None:
    with MessageStore.initialize({**config, "timeout": 0.5}) as store:
        chat_of(store)
        leave_a_lease(config, 60)

        with pytest.raises(StoreUnavailableError):
            store.append_messages("c1", [message("m1")])

        assert store.get_message_by_id("m1") is None


@pytest.mark.parametrize("stored", [[], ["m2"], ["m2", "m3"]])
def test_a_part_of_what_a_killed_process_appended_is_removed(
    store: MessageStore, config: Config, stored: list[str]
) -> None:
    chat_of(store, "m1", *stored)
    leave_a_lease(config, 0, pending=["m2", "m3"])

    store.append_messages("c1", messages("m2", "m3"))

    assert ids(store.get_messages_by_conversation_id("c1")) == ["m1", "m2", "m3"]


def test_a_message_that_a_killed_process_appended_stays(
    store: MessageStore, config: Config
) -> None:
    chat_of(store, "m1")
    leave_a_lease(config, 0, pending=["m1"])

    store.append_messages("c1", [message("m2")], expected_last="m1")

    assert ids(store.get_messages_by_conversation_id("c1")) == ["m1", "m2"]


@pytest.mark.parametrize("command", ["find", "findAndModify", "insert", "update"])
def test_an_append_that_ends_half_way_is_completed_by_repeating_it(
    store: MessageStore, config: Config, command: str
) -> None:
    chat_of(store, "m1")
    fail(config, command, 0)

    with pytest.raises(OperationFailure):
        store.append_messages("c1", messages("m2", "m3"))
    store.append_messages("c1", messages("m2", "m3"))

    assert ids(store.get_messages_by_conversation_id("c1")) == ["m1", "m2", "m3"]
    assert leases(config) == []


def test_a_conversation_that_is_refused_after_an_insertion_holds_no_part(
    store: MessageStore, config: Config
) -> None:
    chat_of(store, "m1")
    stored = mongodb.client(config["uri"])[config["db"]]["messages"]
    stored.create_index("intent", unique=True)

    with pytest.raises((BulkWriteError, IntegrityError), match="intent"):
        store.append_messages("c1", messages("m2", "m3", intent="the same"))

    assert ids(store.get_messages_by_conversation_id("c1")) == ["m1"]
    assert leases(config) == []


@pytest.mark.parametrize("skipped", range(2))
def test_a_rewind_that_ends_half_way_is_completed_by_repeating_it(
    store: MessageStore, config: Config, skipped: int
) -> None:
    chat_of(store, "m1", "m2")
    store.store_turn_trace(trace("m2"))
    fail(config, "delete", skipped)

    with pytest.raises(OperationFailure):
        store.rewind_conversation("c1", after="m1")
    assert_no_orphans(config)

    assert store.rewind_conversation("c1", after="m1") == 1
    assert ids(store.get_messages_by_conversation_id("c1")) == ["m1"]


@pytest.mark.parametrize("skipped", range(2))
def test_a_pop_that_ends_half_way_is_completed_by_repeating_it(
    store: MessageStore, config: Config, skipped: int
) -> None:
    chat_of(store, "m1", "m2")
    fail(config, "delete", skipped)

    with pytest.raises(OperationFailure):
        store.pop_message("c1")

    assert store.pop_message("c1") == message("m2")
    assert ids(store.get_messages_by_conversation_id("c1")) == ["m1"]


@pytest.mark.parametrize(("command", "skipped"), [("insert", 0), ("insert", 1), ("update", 0)])
def test_a_fork_that_ends_half_way_leaves_no_copy(
    store: MessageStore, config: Config, command: str, skipped: int
) -> None:
    chat_of(store, "m1", "m2")
    store.store_turn_trace(trace("m2"))
    fail(config, command, skipped)

    with pytest.raises(OperationFailure):
        store.fork_conversation("c1", conversation("c2"))
    assert_no_orphans(config)
    assert store.get_conversation_by_id("c2") is None
    new_ids = store.fork_conversation("c1", conversation("c2"))

    copies = ids(store.get_messages_by_conversation_id("c2"))
    assert copies == [new_ids["m1"], new_ids["m2"]]
    assert len(store.get_turn_traces_by_conversation_id("c2")) == 1


def test_the_copy_of_a_killed_process_is_deleted_by_the_next_fork(
    store: MessageStore, config: Config
) -> None:
    store.store_conversation(conversation("c2"))
    store.store_message(message("m9", conversation_id="c2"))
    chat_of(store, "m1")
    leave_a_lease(config, 0, fork=True)

    store.fork_conversation("c2", conversation("c1", title="Copy"))

    [copy] = store.get_messages_by_conversation_id("c1")
    assert copy.original_content == message("m9").original_content
    assert store.get_message_by_id("m1") is None


def test_several_stores_append_one_after_another(config: Config, store: MessageStore) -> None:
    store.store_conversation(conversation())
    with ExitStack() as stack:
        stores = [stack.enter_context(MessageStore.initialize(config)) for _ in range(3)]
        pool = stack.enter_context(ThreadPoolExecutor(6))
        names = [f"m{number}" for number in range(24)]
        appended = [
            pool.submit(stores[number % 3].append_messages, "c1", [message(name)])
            for number, name in enumerate(names)
        ]
        for one in appended:
            one.result()
        popped = [pool.submit(stores[number % 3].pop_message, "c1") for number in range(24)]
        taken = [one.result() for one in popped]

    assert sorted(one.id for one in taken if one is not None) == sorted(names)
    assert leases(config) == []


ERASED: dict[str, Callable[[MessageStore], Any]] = {
    "erase": lambda store: store.erase_user("u1"),
    "prune": lambda store: store.prune_conversations(before=2**62),
}


@pytest.mark.parametrize("skipped", range(3))
@pytest.mark.parametrize("call", ERASED.values(), ids=ERASED)
def test_an_erasure_that_ends_half_way_is_completed_by_repeating_it(
    store: MessageStore, config: Config, call: Callable[[MessageStore], Any], skipped: int
) -> None:
    chat_of(store, "m1", "m2")
    store.store_turn_trace(trace("m2"))
    fail(config, "delete", skipped)

    with pytest.raises(OperationFailure):
        call(store)
    assert_no_orphans(config)
    call(store)

    assert store.get_conversation_by_id("c1") is None
    assert store.get_messages_by_ids(["m1", "m2"]) == []
    assert store.get_turn_traces_by_agent_id("a1") == []
