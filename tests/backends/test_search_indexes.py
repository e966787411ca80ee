"""The search index on each back end: who makes it, and what others write beside it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from jazzmine._sync.message_store import mongodb_search
from jazzmine._sync.message_store.searching import run_analysis
from jazzmine._sync.message_store.sqlite import SQLiteBackend
from jazzmine.backends.postgres import word_index
from jazzmine.search.query import SearchScope
from jazzmine.sync.message_store import Message, MessageStore
from tests.backends.postgres_samples import bound
from tests.behaviour.samples import conversation, message
from tests.behaviour.search_model import check_beyond_most_read
from tests.faults.networks import config_of
from tests.servers import mongodb, postgres

Config = dict[str, Any]

WORKERS = 8


@pytest.fixture(params=["sqlite", "postgres", "mongodb", "standalone mongodb"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Config]:
    """The configuration of an empty store."""
    name: str = request.param
    standalone = name.startswith("standalone")
    opened = (
        mongodb.database(mongodb.running("--standalone").url)
        if standalone
        else config_of(name, tmp_path)
    )
    with opened as given:
        yield given


@pytest.fixture
def store(config: Config) -> Iterator[MessageStore]:
    """A store with an index for no language, and a conversation."""
    with MessageStore.initialize({**config, "search": True}) as opened:
        opened.store_conversation(conversation())
        yield opened


def on(*names: str) -> pytest.MarkDecorator:
    """Run a test on some back ends alone."""
    return pytest.mark.parametrize("config", names, indirect=True)


def text(message_id: str, at: int, content: str = "hello") -> Message:
    return message(message_id, timestamp=at, original_content=content)


def found(store: MessageStore, query: str) -> list[str]:
    return [one.message.id for one in store.search_messages(query)]


def fill(store: MessageStore) -> None:
    while store.backend.fill_search(10) is not None:
        pass


def documents(config: Config) -> Any:
    return mongodb.client(config["uri"])[config["db"]]["messages"]


@on("sqlite", "postgres")
def test_workers_that_start_at_once_make_the_index_of_a_new_store_together(config: Config) -> None:
    def start(number: int) -> None:
        with MessageStore.initialize({**config, "search": "english"}) as store:
            store.store_conversation(conversation(f"c{number}"))

    with ThreadPoolExecutor(WORKERS) as threads:
        list(threads.map(start, range(WORKERS)))

    with MessageStore.initialize(config) as store:
        assert len(store.get_conversations()) == WORKERS
        assert store.search_messages("nothing") == []


@on("sqlite")
def test_an_index_that_another_process_makes_while_a_store_is_opened_is_taken(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = {**config, "search": True}
    list_conversations = SQLiteBackend.list_conversations

    def list_late(self: SQLiteBackend, page: Any) -> Any:
        monkeypatch.undo()
        with MessageStore.initialize(searched) as other:
            other.store_conversation(conversation())
        return list_conversations(self, page)

    monkeypatch.setattr(SQLiteBackend, "list_conversations", list_late)
    with MessageStore.initialize(searched) as store:
        assert len(store.get_conversations()) == 1


def test_what_a_store_writes_that_was_open_before_is_found(config: Config) -> None:
    with MessageStore.initialize(config) as unaware, MessageStore.initialize(config) as store:
        unaware.store_conversation(conversation())
        unaware.store_message(text("m1", 1))
        store.backend.make_search("")
        fill(store)
        unaware.store_message(text("m2", 2))
        unaware.append_messages("c1", [text("m3", 3)])
        unaware.store_messages([text("m4", 4), text("m5", 5)])
        for words in ("milk", "other words"):
            unaware.store_message(text("m1", 1, words))

        assert found(store, "hello") == ["m5", "m4", "m3", "m2"]
        assert (found(store, "milk"), found(store, "other")) == ([], ["m1"])
        unaware.delete_message("m3")
        assert found(store, "hello") == ["m5", "m4", "m2"]
        store.backend.make_search(None)
        unaware.store_message(text("m6", 6))
        store.store_message(text("m7", 7))


def test_an_index_for_another_language_takes_no_entry_of_the_one_before(
    config: Config, store: MessageStore
) -> None:
    with MessageStore.initialize(config) as other:
        other.backend.make_search("english")
        store.store_message(text("m1", 1, "walking"))
        fill(other)

        assert found(other, "walked") == ["m1"]


def lose_an_entry(config: Config) -> None:
    """Remove what the index has of the message "m1"."""
    if config["storage"] == "mongodb":
        lost = {"search_entry": "", "search_terms": "", "search_language": ""}
        documents(config).update_one({"id": "m1"}, {"$unset": lost})
    elif config["storage"] == "postgres":
        with postgres.connect(postgres.dsn()) as admin:
            statement = "DELETE FROM $schema.message_words WHERE message_id = 'm1'"
            admin.execute(bound(statement, config["schema"]))
    else:
        with closing(sqlite3.connect(config["path"])) as connection, connection:
            connection.execute("DELETE FROM search_index WHERE id = 'm1'")


def test_a_message_that_the_index_lacks_is_added_when_it_is_filled(
    config: Config, store: MessageStore
) -> None:
    store.store_messages([text(f"m{number}", number) for number in range(3)])
    lose_an_entry(config)

    fill(store)
    assert found(store, "hello") == ["m2", "m1", "m0"]


# PostgreSQL


@on("postgres")
def test_a_search_within_a_user_reads_the_index_of_words(
    admin: psycopg.Connection[Any], config: Config, store: MessageStore
) -> None:
    store.store_messages([text(f"m{number}", number) for number in range(500)])
    admin.execute(bound("VACUUM ANALYZE $schema.message_words", config["schema"]))
    admin.execute("SET enable_seqscan = off")  # the table is small
    parameters = {
        **word_index.scope_parameters(SearchScope(user_id="u1")),
        "query": "rare",
        "limit": 20,
        "last_timestamp": 2**62,
        "last_seq": 2**62,
    }
    statement = b"EXPLAIN " + bound(word_index.LIST_FOUND, config["schema"])
    plan = admin.execute(statement, parameters).fetchall()

    assert any("idx_words_terms" in line for (line,) in plan), plan


@on("postgres")
def test_of_more_messages_than_are_read_the_newest_with_the_rarest_words_are_ranked(
    store: MessageStore,
) -> None:
    check_beyond_most_read(store)


# MongoDB


@on("mongodb")
def test_a_store_without_search_has_no_part_of_it(config: Config) -> None:
    with MessageStore.initialize(config) as store:
        store.store_conversation(conversation())
        store.store_message(text("m1", 1))

    for some in (documents(config).index_information(), documents(config).find_one()):
        assert not [name for name in some if "search" in name]


@on("mongodb")
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
        assert "search_entry" not in documents(config).find_one({"id": "m1"})
