"""The tables of an SQLite store: their migrations, what others see in them, and their limits."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jazzmine.backends.sqlite import database
from jazzmine.backends.sqlite import migrations as migrations_module
from jazzmine.backends.sqlite.migrations import Migration, migrations
from jazzmine.errors import ConfigurationError, RecordTooLargeError
from jazzmine.sync.message_store import SQLiteMessageStore
from tests.backends.sqlite_stores import execute, opened
from tests.behaviour.samples import conversation, full_message, full_trace, message


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteMessageStore]:
    with opened(path) as store:
        store.store_conversation(conversation("c1"))
        yield store


# Migrations


def with_a_new_migration(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    more = (*migrations("messages"), Migration(len(migrations("messages")) + 1, "more", sql))
    for module in (migrations_module, database):
        monkeypatch.setattr(module, "migrations", lambda component: more)


def test_a_new_migration_runs_once_and_an_older_version_is_refused(
    path: Path, store: SQLiteMessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.store_message(message("m1"))
    store.close()
    execute(path, "DROP VIEW messages", "CREATE VIEW messages AS SELECT 1 AS old")

    with monkeypatch.context() as patch:
        with_a_new_migration(patch, "-- new\nCREATE TABLE more (x);\nCREATE INDEX i ON more (x);\n")
        for _ in range(2):
            with opened(path) as newer:
                assert newer.get_message_by_id("m1") == message("m1")

    names = execute(path, "SELECT name FROM jazzmine_migrations ORDER BY version")
    assert names == [*((one.name,) for one in migrations("messages")), ("more",)]
    assert execute(path, "SELECT count(*) FROM more, messages WHERE original_content = ''") == [
        (0,)
    ]
    with pytest.raises(ConfigurationError, match="newer version"):
        opened(path)


def test_a_migration_that_fails_changes_nothing(
    path: Path, store: SQLiteMessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.close()
    with monkeypatch.context() as patch:
        with_a_new_migration(patch, "CREATE TABLE more (x);\nCREATE TABLE more (x);\n")
        with pytest.raises(OSError, match="already exists"):
            opened(path)

    assert execute(path, "SELECT count(*) FROM sqlite_master WHERE name = 'more'") == [(0,)]
    opened(path).close()


# What others see


def test_the_views_show_stored_values_and_defaults(path: Path, store: SQLiteMessageStore) -> None:
    store.store_messages([full_message(), message("m2")])
    store.store_turn_trace(full_trace(full_message().id))

    query = "SELECT role, timestamp, intent, is_flagged, is_continuation, entities FROM messages"
    short = execute(path, f"{query} WHERE id = 'm2'")
    ((tokens, intent),) = execute(path, "SELECT total_tokens, detected_intent FROM turn_traces")

    given = message("m2")
    assert short == [(given.role.value, given.timestamp, given.intent, 0, 1, "[]")]
    stored = full_trace(full_message().id)
    assert (tokens, intent) == (stored.total_tokens, stored.detected_intent)


def test_the_number_of_a_deleted_message_is_not_used_again(
    path: Path, store: SQLiteMessageStore
) -> None:
    store.store_messages([message("m1"), message("m2")])
    store.delete_message("m2")
    store.store_message(message("m3"))
    store.delete_conversation("c1")
    store.store_turn(conversation=conversation("c1"), messages=[message("m4")])

    assert execute(path, "SELECT seq FROM stored_messages") == [(4,)]


# Limits


def test_a_record_that_sqlite_cannot_hold_is_too_large(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def limited(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000)
        return connection

    monkeypatch.setattr(sqlite3, "connect", limited)
    with opened(path) as store:
        store.store_conversation(conversation("c1"))
        with pytest.raises(RecordTooLargeError, match="1 GB"):
            store.store_messages([message("m1"), message("m2", original_content="x" * 200_000)])

        assert store.get_messages_by_conversation_id("c1") == []
        store.store_message(message("m1"))
