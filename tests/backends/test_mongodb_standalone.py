"""On a server without transactions, a write that ends after any step leaves no orphan."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, cast

import pytest

from jazzmine import MemoryItem
from jazzmine._sync.long_term_memory.mongodb_backend import MongoDBItemBackend
from jazzmine._sync.message_store import mongodb_steps
from jazzmine._sync.message_store.mongodb_backend import MongoDBBackend
from jazzmine.errors import IntegrityError, StoreUnavailableError
from jazzmine.sync.long_term_memory import LongTermMemoryStore
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

    with pytest.raises(StoreUnavailableError):
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

    with pytest.raises(IntegrityError, match="intent"):
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

    with pytest.raises(StoreUnavailableError):
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

    with pytest.raises(StoreUnavailableError):
        store.delete_conversation("c1")
    assert_no_orphans(config)

    assert store.delete_conversation("c1")
    assert store.get_messages_by_ids(["m1", "m2"]) == []
    assert store.get_turn_trace_by_id("new") is None


def test_a_message_that_is_stored_during_a_deletion_that_ends_half_way_goes_when_it_is_repeated(
    store: MessageStore, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_turn(store)
    remove, remove_orphans = mongodb_steps.remove, mongodb_steps.remove_orphans

    def remove_and_store(*arguments: Any) -> Any:
        removed = remove(*arguments)
        with MessageStore.initialize(config) as other:
            other.store_message(message("m3"))
        return removed

    def end(*arguments: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(mongodb_steps, "remove", remove_and_store)
    monkeypatch.setattr(mongodb_steps, "remove_orphans", end)
    with pytest.raises(KeyboardInterrupt):
        store.delete_conversation("c1")
    monkeypatch.setattr(mongodb_steps, "remove", remove)
    monkeypatch.setattr(mongodb_steps, "remove_orphans", remove_orphans)
    assert store.get_conversation_by_id("c1") is None
    assert store.get_message_by_id("m3") is not None  # what the documentation says

    assert not store.delete_conversation("c1")
    assert store.get_message_by_id("m3") is None


@pytest.mark.parametrize("skipped", range(2))
def test_a_message_whose_deletion_ends_half_way_is_deleted_by_repeating_it(
    store: MessageStore, config: Config, skipped: int
) -> None:
    store_turn(store)
    fail(config, "delete", skipped)

    with pytest.raises(StoreUnavailableError):
        store.delete_message("m2")
    assert_no_orphans(config)

    assert store.delete_message("m2")
    assert store.get_turn_trace_by_id("new") is None


# A conversation as a log


def chat_of(store: MessageStore, *names: str) -> None:
    store.store_conversation(conversation())
    store.store_messages(messages(*names))


def test_a_standalone_server_is_named_once_in_the_log(
    config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    with MessageStore.initialize(config) as store:
        store.store_conversation(conversation())

    [said] = [one.message for one in caplog.records if "standalone" in one.message]
    assert "replica set of one server" in said


@pytest.mark.parametrize(
    ("command", "skipped"),
    [("find", 0), ("find", 1), ("insert", 0), ("insert", 1), ("update", 0)],
)
def test_an_append_that_ends_half_way_is_completed_by_repeating_it(
    store: MessageStore, config: Config, command: str, skipped: int
) -> None:
    chat_of(store, "m1")
    new = [message("m2", timestamp=5), message("m3", timestamp=6)]
    fail(config, command, skipped)

    with pytest.raises(StoreUnavailableError):
        store.append_messages("c1", new, trace=trace("m3"))
    assert_no_orphans(config)
    stored = store.append_messages("c1", new, trace=trace("m3"))

    assert store.get_messages_by_conversation_id("c1")[1:] == stored
    assert store.get_turn_trace_by_message_id("m3") == trace("m3")
    found = store.get_conversation_by_id("c1")
    assert found is not None
    assert found.last_updated_at == stored[-1].timestamp


@pytest.mark.parametrize(("command", "skipped"), [("insert", 0), ("delete", 0), ("delete", 1)])
def test_a_regenerated_answer_that_ends_half_way_is_never_missing_and_is_completed(
    store: MessageStore, config: Config, command: str, skipped: int
) -> None:
    chat_of(store, "m1", "old")
    store.store_turn_trace(trace("old"))
    fail(config, command, skipped)

    with pytest.raises(StoreUnavailableError):
        store.append_messages("c1", [message("new")], replace_after="m1", expected_last="old")
    assert len(store.get_messages_by_conversation_id("c1")) >= 2
    store.append_messages("c1", [message("new")], replace_after="m1", expected_last="old")

    assert ids(store.get_messages_by_conversation_id("c1")) == ["m1", "new"]
    assert_no_orphans(config)


@pytest.mark.parametrize("stored", [["m2"], ["m2", "m3"], ["m2", "m3", "m4"]])
def test_the_part_that_a_killed_process_appended_is_completed_where_it_stands(
    store: MessageStore, config: Config, stored: list[str]
) -> None:
    chat_of(store, "m1", *stored)

    appended = store.append_messages("c1", messages("m2", "m3", "m4"))

    assert ids(appended) == ["m2", "m3", "m4"]
    assert ids(store.get_messages_by_conversation_id("c1")) == ["m1", "m2", "m3", "m4"]


def test_a_part_that_is_not_the_beginning_is_refused(store: MessageStore) -> None:
    chat_of(store, "m1", "m3")

    with pytest.raises(IntegrityError, match="only some"):
        store.append_messages("c1", messages("m2", "m3"))

    assert ids(store.get_messages_by_conversation_id("c1")) == ["m1", "m3"]


@pytest.mark.parametrize("skipped", range(2))
def test_a_rewind_that_ends_half_way_is_completed_by_repeating_it(
    store: MessageStore, config: Config, skipped: int
) -> None:
    chat_of(store, "m1", "m2")
    store.store_turn_trace(trace("m2"))
    fail(config, "delete", skipped)

    with pytest.raises(StoreUnavailableError):
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

    with pytest.raises(StoreUnavailableError):
        store.pop_message("c1")

    assert store.pop_message("c1") == message("m2")
    assert ids(store.get_messages_by_conversation_id("c1")) == ["m1"]


@pytest.mark.parametrize("skipped", range(3))
def test_a_fork_that_ends_half_way_shows_no_half_and_is_completed_by_repeating_it(
    store: MessageStore, config: Config, skipped: int
) -> None:
    chat_of(store, "m1", "m2")
    store.store_turn_trace(trace("m2"))
    fail(config, "insert", skipped)

    with pytest.raises(StoreUnavailableError):
        store.fork_conversation("c1", conversation("c2"))
    assert store.get_conversation_by_id("c2") is None
    new_ids = store.fork_conversation("c1", conversation("c2"))

    copies = ids(store.get_messages_by_conversation_id("c2"))
    assert copies == [new_ids["m1"], new_ids["m2"]]
    assert len(store.get_turn_traces_by_conversation_id("c2")) == 1
    assert_no_orphans(config)


def test_what_a_killed_fork_left_is_erased_with_its_user(
    store: MessageStore, config: Config
) -> None:
    chat_of(store, "m1")
    fail(config, "insert", 1)
    with pytest.raises(StoreUnavailableError):
        store.fork_conversation("c1", conversation("c2"))

    store.erase_user("u1")

    assert mongodb.client(config["uri"])[config["db"]]["messages"].count_documents({}) == 0


def test_several_threads_append_and_pop_one_after_another(
    config: Config, store: MessageStore
) -> None:
    store.store_conversation(conversation())
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(6))
        names = [f"m{number}" for number in range(24)]
        for one in [pool.submit(store.append_messages, "c1", [message(name)]) for name in names]:
            one.result()
        popped = [pool.submit(store.pop_message, "c1") for _ in names]
        taken = [one.result() for one in popped]

    assert sorted(one.id for one in taken if one is not None) == sorted(names)


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

    with pytest.raises(StoreUnavailableError):
        call(store)
    assert_no_orphans(config)
    call(store)

    assert store.get_conversation_by_id("c1") is None
    assert store.get_messages_by_ids(["m1", "m2"]) == []
    assert store.get_turn_traces_by_agent_id("a1") == []


def test_a_trace_that_another_user_owns_by_then_is_not_erased(
    store: MessageStore, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.store_conversation(conversation(user_id="other"))
    store.store_turn(messages=messages("m1", user_id="other"), trace=trace("m1", user_id="u1"))
    traces = mongodb.client(config["uri"])[config["db"]]["turn_traces"]
    find = MongoDBBackend._some

    def find_and_merge(*arguments: Any) -> Any:
        found = find(*arguments)
        if found:
            traces.update_many({"user_id": "u1"}, {"$set": {"user_id": "merged"}})
        return found

    monkeypatch.setattr(MongoDBBackend, "_some", find_and_merge)
    assert store.erase_user("u1").traces == 0
    assert store.get_turn_trace_by_message_id("m1") is not None


class Merging:
    """A collection of items that are given to another user after they were found."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection
        self.delete_many = collection.delete_many

    def find(self, *arguments: Any, **options: Any) -> Any:
        found = self._collection.find(*arguments, **options).to_list()
        self._collection.update_many({}, {"$set": {"user_id": "merged"}})
        return Found(found)


class Found(list[Any]):
    """What a cursor has found."""

    def to_list(self) -> list[Any]:
        return self


def test_an_item_that_another_user_owns_by_then_is_not_erased(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LongTermMemoryStore.initialize(config) as store:
        store.put(MemoryItem(namespace=("n",), key="k", value={}, user_id="u1"))
        items = cast("MongoDBItemBackend", store.backend)._items
        with monkeypatch.context() as patched:
            patched.setattr(MongoDBItemBackend, "_items", Merging(items))
            assert store.erase_user("u1") == 0
        found = store.get(("n",), "k")
        assert found is not None
        assert found.user_id == "merged"
