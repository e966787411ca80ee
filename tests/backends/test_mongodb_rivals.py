"""What a MongoDB store does while other processes write, and what a server's errors become."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jazzmine import StoreUnavailableError
from jazzmine._sync.message_store import mongodb_steps
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation, ids, message, messages, trace
from tests.cli.program import run
from tests.servers import mongodb

Config = dict[str, Any]


@pytest.fixture
def config() -> Iterator[Config]:
    with mongodb.database() as configuration:
        yield configuration


@pytest.fixture
def store(config: Config) -> Iterator[MessageStore]:
    """A store with the conversation "c1" and its messages "m1" (trace "t1") and "m2"."""
    with MessageStore.initialize(config) as opened:
        opened.store_conversation(conversation())
        opened.store_messages(messages("m1", "m2"))
        opened.store_turn_trace(trace("m1", id="t1"))
        yield opened


def database(config: Config) -> Any:
    return mongodb.client(config["uri"])[config["db"]]


# Errors of the server

CALLS: dict[str, Callable[[MessageStore], object]] = {
    "a read": lambda store: store.get_message_by_id("m1"),
    "a list": lambda store: store.get_messages_by_conversation_id("c1"),
    "a write": lambda store: store.store_message(message("m3")),
    "a transaction": lambda store: store.append_messages("c1", [message("m3")]),
    "an erasure": lambda store: store.erase_user("u1"),
}
# Internal error, unauthorized, illegal operation, time limit, write concern, transaction, failed
# operation, memory, snapshot, no such transaction, interrupted, full disk.
CODES = [1, 13, 20, 50, 64, 225, 96, 146, 246, 251, 11601, 14031]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_each_error_of_the_server_is_one_of_ours(
    config: Config, call: Callable[[MessageStore], object], code: int
) -> None:
    commands = ["find", "update", "insert", "delete", "aggregate"]
    data = {"failCommands": commands, "errorCode": code}
    admin = mongodb.client(config["uri"]).admin
    with MessageStore.initialize({**config, "timeout": 0.5}) as store:
        admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=data)
        try:
            with pytest.raises(StoreUnavailableError) as raised:
                call(store)
        finally:
            admin.command("configureFailPoint", "failCommand", mode="off")
    assert raised.value.__cause__ is not None


# Network time-out, read concern not available yet, exceeded time limit.
PASSING = [89, 134, 262]


@pytest.mark.parametrize("code", PASSING)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_error_that_passes_is_not_the_callers(
    store: MessageStore, config: Config, call: Callable[[MessageStore], object], code: int
) -> None:
    commands = ["find", "update", "insert", "delete", "aggregate"]
    data = {"failCommands": commands, "errorCode": code}
    admin = mongodb.client(config["uri"]).admin
    # More often than the driver repeats a command by itself.
    admin.command("configureFailPoint", "failCommand", mode={"times": 3}, data=data)
    call(store)


# Writes of others


class Rival:
    """Changes a document of a store at the moment when a function is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[], object]):
        original = getattr(mongodb_steps, name)
        self.calls = 0

        def changed(*args: Any) -> Any:
            self.calls += 1
            if self.calls == 1:
                thread = threading.Thread(target=change)  # outside the call's deadline
                thread.start()
                thread.join()
            return original(*args)

        monkeypatch.setattr(mongodb_steps, name, changed)


def test_a_message_that_another_user_owns_by_then_is_not_erased(
    store: MessageStore, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.store_conversation(conversation("c2", user_id="bob"))
    store.store_messages([message("m3", conversation_id="c2")])
    merged = {"$set": {"user_id": "bob"}}
    found = database(config)["messages"]
    Rival(monkeypatch, "remove", lambda: found.update_one({"id": "m3"}, merged))

    store.erase_user("u1")

    assert ids(store.get_messages_by_conversation_id("c2")) == ["m3"]
    assert store.get_conversation_by_id("c1") is None


def test_a_conversation_that_another_user_owns_by_then_is_not_erased(
    store: MessageStore, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.store_conversation(conversation("c2"))
    store.store_message(message("m3", conversation_id="c2", user_id="bob"))
    merged = {"$set": {"user_id": "bob"}}
    found = database(config)["conversations"]
    Rival(
        monkeypatch,
        "erase_conversation",
        lambda: found.update_many({}, merged),
    )

    store.erase_user("u1")

    assert len(store.get_conversations_by_user_id("bob")) == 2
    assert ids(store.get_messages_by_conversation_id("c2")) == ["m3"]


def test_the_doctor_finds_and_deletes_what_a_deletion_beside_a_write_has_left(
    store: MessageStore, config: Config
) -> None:
    url = f"{config['uri']}/{config['db']}"
    with MessageStore.initialize(config) as other:
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
