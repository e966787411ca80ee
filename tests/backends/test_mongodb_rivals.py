"""What a MongoDB store does while other processes write, and what a server's errors become."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, cast

import pytest
from pymongo import WriteConcern
from pymongo.client_session import ClientSession

from jazzmine import IntegrityError, StoreUnavailableError
from jazzmine._sync.clients.mongodb.client import MongoDBClient
from jazzmine._sync.message_store import mongodb_steps
from jazzmine._sync.message_store.mongodb_backend import MongoDBBackend
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation, ids, message, messages, trace
from tests.faults.sizes import TOLERANCE
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


# Cursor not found, network time-out, read concern not available yet, exceeded time limit.
PASSING = [43, 89, 134, 262]


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


def test_a_message_that_was_stored_while_its_conversation_was_deleted_is_deleted_too(
    store: MessageStore, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MessageStore.initialize(config) as other:
        other.store_message(message("m3"))
        Rival(monkeypatch, "is_retired", lambda: other.store_message(message("m4")))

        assert store.delete_conversation("c1")
        with pytest.raises(IntegrityError):
            other.store_message(message("m5"))

    assert database(config)["messages"].count_documents({}) == 0


@pytest.mark.parametrize(
    "delete",
    [
        lambda store: store.delete_conversation("c1"),
        lambda store: store.erase_user("u1"),
        lambda store: store.prune_conversations(before=2**42),
    ],
    ids=["delete_conversation", "erase_user", "prune_conversations"],
)
def test_a_process_that_ends_after_the_transaction_leaves_no_message_without_its_conversation(
    config: Config, monkeypatch: pytest.MonkeyPatch, delete: Callable[[MessageStore], object]
) -> None:
    """Another one stores a message during the transaction, and knows that there was another."""
    with MessageStore.initialize(config) as store, MessageStore.initialize(config) as other:
        for one in (store, other):
            one.store_conversation(conversation())
            one.store_message(message("m1"))
        rivals: list[threading.Thread] = []

        def store_meanwhile() -> None:
            if not rivals:
                rivals.append(threading.Thread(target=store_one))
                rivals[0].start()
                rivals[0].join(0.5)  # it may have to wait for the transaction

        def store_one() -> None:
            with suppress(IntegrityError):
                other.store_message(message("m2"))

        Rival(monkeypatch, "remove", store_meanwhile)
        ends = False

        def end(client: MongoDBClient, session: Any, work: Any) -> Any:
            nonlocal ends
            if ends:
                raise KeyboardInterrupt
            result = commit(client, session, work)
            ends = bool(rivals)
            return result

        commit = MongoDBClient.commit
        client = cast("MongoDBBackend", store.backend).client
        monkeypatch.setattr(client, "commit", partial(end, client))
        with suppress(KeyboardInterrupt):
            delete(store)
        rivals[0].join(10)

    with MessageStore.initialize(config) as store:
        is_there = store.get_conversation_by_id("c1") is not None
        assert is_there or store.get_message_by_id("m2") is None


def test_a_trace_is_not_stored_beside_the_deletion_of_its_message(
    store: MessageStore, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MessageStore.initialize(config) as other:
        Rival(monkeypatch, "_require_message", lambda: other.delete_message("m2"))

        with pytest.raises(IntegrityError, match="not stored"):
            store.store_turn_trace(trace("m2"))

    assert database(config)["turn_traces"].count_documents({}) == 1


def test_a_locked_conversation_takes_no_connection_from_other_calls(config: Config) -> None:
    uri = f"{config['uri']}/?maxPoolSize=2"
    with MessageStore.initialize({**config, "uri": uri, "timeout": 10}) as store:
        store.store_conversation(conversation())
        store.store_conversation(conversation("c2"))
        admin = mongodb.client(config["uri"])
        locked = admin[config["db"]].get_collection(
            "conversations", write_concern=WriteConcern("majority")
        )
        session: ClientSession
        with admin.start_session() as session, ThreadPoolExecutor(10) as pool:
            session.start_transaction()
            locked.update_one({"id": "c1"}, {"$inc": {"touched": 1}}, session=session)
            waiting = [
                pool.submit(store.append_messages, "c1", [message(f"m{number}")])
                for number in range(10)
            ]
            time.sleep(0.1)
            started = time.monotonic()
            for number in range(5):
                store.ping()
                store.append_messages("c2", [message(f"n{number}", conversation_id="c2")])
            took = time.monotonic() - started
            session.abort_transaction()
            for one in waiting:
                one.result()

    assert took < 8 + TOLERANCE  # without a free connection, 10 s


WRITES: dict[str, Callable[[MessageStore, int], object]] = {
    "append_messages": lambda store, n: store.append_messages("c1", [message(f"new {n}")]),
    "store_turn_trace": lambda store, n: store.store_turn_trace(trace(f"m{n}")),
    "delete_message": lambda store, n: store.delete_message(f"m{n}"),
    "flag_message": lambda store, n: store.flag_message(f"m{n}"),
    "delete_conversation": lambda store, n: store.delete_conversation("c1"),
    "rewind_conversation": lambda store, n: store.rewind_conversation("c1", after="m0"),
    "erase_user": lambda store, n: store.erase_user("u1"),
    "prune_conversations": lambda store, n: store.prune_conversations(before=2**42),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_to_a_locked_conversation_leave_a_connection_to_reads(
    config: Config, write: Callable[[MessageStore, int], object]
) -> None:
    uri = f"{config['uri']}/?maxPoolSize=2"
    with MessageStore.initialize({**config, "uri": uri, "timeout": 20}) as store:
        store.store_conversation(conversation())
        store.store_messages(messages(*(f"m{n}" for n in range(10))))
        admin = mongodb.client(config["uri"])
        session: ClientSession
        with admin.start_session() as session, ThreadPoolExecutor(10) as pool:
            session.start_transaction()
            for name in ("conversations", "messages"):
                locked = admin[config["db"]].get_collection(
                    name, write_concern=WriteConcern("majority")
                )
                locked.update_many({}, {"$inc": {"touched": 1}}, session=session)
            waiting = [pool.submit(write, store, n) for n in range(10)]
            time.sleep(0.3)
            for _ in range(5):
                store.ping()  # without a free connection, this would fail at the deadline
            assert not any(one.done() for one in waiting)
            session.abort_transaction()
            for one in waiting:
                one.result()


def test_an_append_is_not_starved_by_others_that_store_messages(config: Config) -> None:
    with MessageStore.initialize(config) as store, MessageStore.initialize(config) as other:
        store.store_conversation(conversation())
        other.store_message(message("first"))
        is_over = threading.Event()

        def store_on_and_on(thread: int) -> None:
            number = 0
            while not is_over.is_set():
                other.store_message(message(f"{thread}-{number}"))
                number += 1

        with ThreadPoolExecutor(8) as pool:
            writers = [pool.submit(store_on_and_on, thread) for thread in range(8)]
            try:
                for number in range(3):
                    store.append_messages("c1", [message(f"m{number}")])
                    assert store.pop_message("c1") is not None
            finally:
                is_over.set()
            for writer in writers:
                writer.result()
