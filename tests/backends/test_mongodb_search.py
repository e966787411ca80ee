"""The search index in MongoDB: its fields and indexes, and what others write beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jazzmine._sync.message_store import mongodb_search
from jazzmine._sync.message_store.searching import run_analysis
from jazzmine.sync.message_store import Message, MessageStore
from tests.behaviour.samples import conversation, message
from tests.servers import mongodb

Config = dict[str, Any]

SERVERS: dict[str, tuple[str, ...]] = {"replica set": (), "standalone": ("--standalone",)}


@pytest.fixture(params=list(SERVERS.values()), ids=list(SERVERS))
def config(request: pytest.FixtureRequest) -> Iterator[Config]:
    with mongodb.database(mongodb.running(*request.param).url) as configuration:
        yield configuration


@pytest.fixture
def store(config: Config) -> Iterator[MessageStore]:
    with MessageStore.initialize({**config, "search": True}) as opened:
        opened.store_conversation(conversation())
        yield opened


def text(message_id: str, at: int, content: str = "hello") -> Message:
    return message(message_id, timestamp=at, original_content=content)


def database(config: Config) -> Any:
    return mongodb.client(config["uri"])[config["db"]]


def searched(config: Config) -> list[Any]:
    fields = {"_id": 0, "id": 1, "search_entry": 1}
    return list(database(config)["messages"].find({}, fields, sort=[("timestamp", 1)]))


def found(store: MessageStore, query: str) -> list[str]:
    return [one.message.id for one in store.search_messages(query)]


def fill(store: MessageStore) -> None:
    while store.backend.fill_search(10) is not None:
        pass


def test_a_store_without_search_has_no_part_of_it(config: Config) -> None:
    with MessageStore.initialize(config) as store:
        store.store_conversation(conversation())
        store.store_message(text("m1", 1))
    messages = database(config)["messages"]

    for some in (messages.index_information(), messages.find_one()):
        assert not [name for name in some if "search" in name]


def test_a_message_of_a_process_that_was_open_before_is_found(config: Config) -> None:
    with MessageStore.initialize(config) as unaware, MessageStore.initialize(config) as store:
        unaware.store_conversation(conversation())
        unaware.store_message(text("m1", 1))
        store.backend.make_search("")
        fill(store)
        unaware.store_message(text("m2", 2))
        unaware.append_messages("c1", [text("m3", 3)])
        unaware.store_message(text("m1", 1, "hello, hello"))

        assert sorted(found(store, "hello")) == ["m1", "m2", "m3"]
        assert searched(config)[0]["search_entry"] == "hello hello"


def test_a_text_that_was_changed_meanwhile_is_not_indexed_as_it_was(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MessageStore.initialize(config) as unaware, MessageStore.initialize(config) as store:
        unaware.store_conversation(conversation())
        unaware.store_message(text("m1", 1))
        store.backend.make_search("")

        def analyse(*args: Any) -> Any:
            unaware.store_message(text("m1", 1, "other words"))
            return run_analysis(*args)

        monkeypatch.setattr(mongodb_search, "run_analysis", analyse)

        assert store.backend.fill_search(10) == 0
        assert searched(config) == [{"id": "m1"}]


def test_an_index_for_another_language_takes_no_entry_of_the_one_before(
    config: Config, store: MessageStore
) -> None:
    with MessageStore.initialize(config) as other:
        other.backend.make_search("english")
        store.store_message(text("m1", 1, "walking"))
        fill(other)

        assert found(other, "walked") == ["m1"]
        assert searched(config) == [{"id": "m1", "search_entry": "walking|walk"}]


def test_messages_that_the_index_lacks_are_added_when_it_is_filled(
    config: Config, store: MessageStore
) -> None:
    store.store_messages([text(f"m{number}", number) for number in range(3)])
    lost = {"search_entry": "", "search_terms": "", "search_language": ""}
    database(config)["messages"].update_one({"id": "m1"}, {"$unset": lost})

    fill(store)
    assert found(store, "hello") == ["m2", "m1", "m0"]
