"""The search index in PostgreSQL: its table, who refuses it, and what others write beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from jazzmine.backends.postgres import word_index
from jazzmine.search.query import SearchScope
from jazzmine.sync import MessageStore
from tests.backends.postgres_samples import bound, config, conversation, message
from tests.behaviour.search_model import check_beyond_most_read
from tests.servers import postgres

Admin = psycopg.Connection[Any]


@pytest.fixture
def schema() -> Iterator[str]:
    with postgres.new_schema() as name:
        yield name


@pytest.fixture
def store(schema: str) -> Iterator[MessageStore]:
    with MessageStore.initialize(config(schema, search=True)) as opened:
        opened.store_conversation(conversation())
        yield opened


def found(store: MessageStore, query: str) -> list[str]:
    return [one.message.id for one in store.search_messages(query)]


def test_a_message_of_a_process_that_was_open_before_is_found(schema: str) -> None:
    with (
        MessageStore.initialize(config(schema)) as unaware,
        MessageStore.initialize(config(schema)) as store,
    ):
        unaware.store_conversation(conversation())
        store.backend.make_search("")
        while store.backend.fill_search(10) is not None:
            pass
        unaware.store_message(message("m1", at=1))
        unaware.append_messages("c1", [message("m2", at=2)])
        unaware.store_messages([message("m3", at=3), message("m4", at=4)])

        assert found(store, "hello") == ["m4", "m3", "m2", "m1"]


def test_an_index_for_another_language_takes_no_entry_of_the_one_before(
    schema: str, store: MessageStore
) -> None:
    with MessageStore.initialize(config(schema)) as other:
        other.backend.make_search("english")
        store.store_message(message().model_copy(update={"original_content": "walking"}))
        while other.backend.fill_search(10) is not None:
            pass

        assert found(other, "walked") == ["m1"]


def test_a_search_within_a_user_reads_the_index_of_words(
    admin: Admin, schema: str, store: MessageStore
) -> None:
    store.store_messages([message(f"m{number}", at=number) for number in range(500)])
    admin.execute(bound("VACUUM ANALYZE $schema.message_words", schema))
    admin.execute("SET enable_seqscan = off")  # the table is small
    parameters = {
        **word_index.scope_parameters(SearchScope(user_id="u")),
        "query": "rare",
        "limit": 20,
        "last_timestamp": 2**62,
        "last_seq": 2**62,
    }
    statement = b"EXPLAIN " + bound(word_index.LIST_FOUND, schema)
    plan = admin.execute(statement, parameters).fetchall()

    assert any("idx_words_terms" in line for (line,) in plan), plan


def test_of_more_messages_than_are_read_the_newest_with_the_rarest_words_are_ranked(
    store: MessageStore,
) -> None:
    check_beyond_most_read(store)


def test_messages_that_the_index_lacks_are_added_when_it_is_filled(
    admin: Admin, schema: str, store: MessageStore
) -> None:
    store.store_messages([message(f"m{number}", at=number) for number in range(3)])
    admin.execute(bound("DELETE FROM $schema.message_words WHERE message_id = 'm1'", schema))

    while store.backend.fill_search(10) is not None:
        pass
    assert found(store, "hello") == ["m2", "m1", "m0"]
