"""The search index in an SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jazzmine.backends.sqlite import search, search_queries
from jazzmine.search.analyser import analyser_for
from jazzmine.search.query import FoundPage, SearchScope, SearchState, parse_query
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation, message
from tests.behaviour.search_model import check_beyond_most_read


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture
def store(path: Path) -> Iterator[MessageStore]:
    """A store with a search index, and one conversation."""
    with opened(path, search=True) as searched:
        searched.store_conversation(conversation())
        yield searched


def opened(path: Path, **options: Any) -> MessageStore:
    storage = "json" if path.suffix == ".json" else "sqlite"
    return MessageStore.initialize({"storage": storage, "path": str(path), **options})


def raw(path: Path) -> bytes:
    """All bytes of a database, and of its -wal file."""
    return b"".join(file.read_bytes() for file in path.parent.iterdir())


def test_no_word_of_an_erased_user_is_left_in_the_file(path: Path, store: MessageStore) -> None:
    store.store_conversation(conversation("c2", user_id="u2"))
    words = "xylophone", "quincunx"
    for number in range(300):
        text = f"{words[0]} {words[1]}{number}"
        store.store_message(message(f"m{number}", original_content=text))
        other = message(f"n{number}", conversation_id="c2", user_id="u2", original_content="tea")
        store.store_message(other)
    assert words[1].encode() in raw(path)

    store.erase_user("u1")

    for word in words:
        assert word.encode() not in raw(path)
    assert len(store.search_messages("tea", limit=1000)) == 300
    assert len(store.search_messages("tea", order="newest", limit=1000)) == 300


def test_the_first_line_of_a_json_file_says_that_it_has_search(tmp_path: Path) -> None:
    path = tmp_path / "messages.json"
    with opened(path, search="english") as store:
        assert path.read_bytes().startswith(b'{"version": 1, "search": "english",\n')
        store.backend.make_search(None)
    assert path.read_bytes().startswith(b'{"version": 1,\n')


def test_the_index_has_each_message_once(path: Path, store: MessageStore) -> None:
    for number in range(50):
        store.store_message(message(f"m{number % 20}", original_content=f"word{number} a"))
        if not number % 7:
            store.pop_message("c1")

    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO search_index (search_index) VALUES ('integrity-check')")
        assert search.read_state_and_pending(connection) == (SearchState("", True), False)
        indexed = "SELECT rowid FROM search_index WHERE search_index MATCH 'a' ORDER BY rowid"
        stored = "SELECT seq FROM stored_messages ORDER BY seq"
        assert connection.execute(indexed).fetchall() == connection.execute(stored).fetchall() != []


def test_entries_without_messages_are_removed_when_the_index_is_filled(
    path: Path, store: MessageStore
) -> None:
    store.store_messages([message(f"m{n}", original_content="tea", timestamp=n) for n in range(60)])
    store.store_message(message("n1", original_content="milk", timestamp=99))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TRIGGER search_deleted")
        connection.execute("DELETE FROM stored_messages WHERE id IN ('m3', 'm59')")

    while store.backend.fill_search(10) is not None:
        pass
    stored = [one.id for one in store.get_messages_by_conversation_id("c1")]
    found = store.search_messages("tea", order="newest", limit=100)
    assert [one.message.id for one in found] == [one for one in reversed(stored) if one != "n1"]


def test_of_more_messages_than_are_read_the_newest_with_the_rarest_words_are_ranked(
    path: Path, store: MessageStore
) -> None:
    def blocks() -> list[Any]:
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute("SELECT * FROM search_blocks ORDER BY block").fetchall()

    check_beyond_most_read(store)
    as_stored = blocks()
    store.backend.make_search(None)
    store.backend.make_search("")
    while store.backend.fill_search(1_000) is not None:
        pass

    assert blocks() == as_stored
    check_beyond_most_read(store)


def test_a_list_of_the_newest_reads_as_much_of_a_large_store_as_of_a_small_one(
    path: Path, store: MessageStore
) -> None:
    def steps() -> int:
        """How much SQLite does for a page of what all messages have."""
        with closing(sqlite3.connect(path)) as connection:
            count = 0

            def counted() -> None:
                nonlocal count
                count += 1

            connection.set_progress_handler(counted, 10)
            clauses = parse_query("tea", analyser_for("")).clauses
            page = FoundPage(clauses, True, (), SearchScope(), 20, None)
            found = search_queries.list_found(connection, page)
            connection.set_progress_handler(None, 0)
            assert [row[0] for row in found] == [f"m{number - 1 - n}" for n in range(20)]
            return count

    number = 0
    counts = []
    for size in (1_500, 6_000):
        new = range(number, size)
        texts = [message(f"m{n}", original_content="tea", timestamp=n * 60_000) for n in new]
        store.store_messages(texts)
        number = size
        counts.append(steps())

    assert counts[1] < 2 * counts[0]
