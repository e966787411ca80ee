"""The file of an SQLite store: what it is refused for, what becomes of an open one, its tables."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jazzmine.backends.sqlite import database
from jazzmine.backends.sqlite import migrations as migrations_module
from jazzmine.backends.sqlite.migrations import Migration, migrations
from jazzmine.errors import ConfigurationError, IntegrityError, RecordTooLargeError
from jazzmine.sync import MessageStore, WorkingMemoryStore
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


def test_after_close_everything_is_in_one_file(path: Path, store: SQLiteMessageStore) -> None:
    store.store_message(message("m1"))
    store.close()

    assert os.listdir(path.parent) == ["messages.db"]
    with opened(path) as again:
        assert again.get_message_by_id("m1") == message("m1")


# What is refused, and left as it is


def another_application(path: Path) -> None:
    execute(path, "PRAGMA journal_mode = WAL", "CREATE TABLE notes (text)", "SELECT 1")


def another_with_an_id(path: Path) -> None:
    execute(path, "PRAGMA application_id = 7", "PRAGMA user_version = 1")


def another_with_our_format_and_tables(path: Path) -> None:
    execute(
        path,
        "CREATE TABLE jazzmine_migrations (component, version)",
        "CREATE TABLE stored_messages (id)",
        "PRAGMA user_version = 1",
    )


def text_file(path: Path) -> None:
    path.write_text("no database, but long enough to be taken for one" * 100)


def newer_format(path: Path) -> None:
    opened(path).close()
    execute(path, "PRAGMA user_version = 3")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (another_application, "database of another application"),
        (another_with_an_id, "database of another application"),
        (another_with_our_format_and_tables, "database of another application"),
        (text_file, "no SQLite database"),
        (newer_format, "newer version of jazzmine"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_and_not_touched(
    path: Path, make: Callable[[Path], None], text: str
) -> None:
    make(path)
    before = path.read_bytes()
    times = path.stat().st_mtime_ns

    with pytest.raises(ConfigurationError, match=text) as caught:
        opened(path)

    assert str(path) in str(caught.value)
    assert os.listdir(path.parent) == [path.name]
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, times)


@pytest.mark.parametrize(
    ("newer", "component", "other"),
    [
        (MessageStore, "messages", WorkingMemoryStore),
        (WorkingMemoryStore, "working_memory", MessageStore),
    ],
)
def test_tables_of_one_kind_that_are_newer_are_refused_for_that_kind_alone(
    path: Path, newer: Any, component: str, other: Any
) -> None:
    for kind in (newer, other):
        kind.initialize(f"sqlite:{path}").close()
    execute(
        path,
        "INSERT INTO jazzmine_migrations (component, version, name, applied_at)"
        f" VALUES ('{component}', 99, 'newer', 0)",
    )
    before = path.read_bytes()

    with pytest.raises(ConfigurationError, match="newer version of jazzmine"):
        newer.initialize(f"sqlite:{path}")

    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    other.initialize(f"sqlite:{path}").close()


def test_a_database_restored_from_a_dump_says_how_it_is_opened(
    path: Path, tmp_path: Path, store: SQLiteMessageStore
) -> None:
    restored = tmp_path / "restored.db"
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(restored)) as target:
        target.executescript("\n".join(source.iterdump()))

    with pytest.raises(ConfigurationError, match=r"restored from a \.dump") as caught:
        opened(restored)
    execute(restored, *re.findall(r"PRAGMA [^;]*", str(caught.value)))

    with opened(restored) as again:
        again.store_message(message("m1"))
        assert again.get_conversation_by_id("c1") == store.get_conversation_by_id("c1")


def test_an_empty_file_becomes_a_database(path: Path) -> None:
    path.touch(0o640)

    opened(path).close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(ConfigurationError, match=r"SQLite 3\.35 or newer"):
        opened(path)
    assert not path.exists()


def test_a_damaged_file_raises_an_error_that_names_it(
    path: Path, store: SQLiteMessageStore
) -> None:
    store.store_messages([message(f"m{n}", original_content="x" * 1000) for n in range(200)])
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)

    with pytest.raises(OSError, match="damaged") as caught, opened(path) as damaged:
        damaged.get_messages_by_conversation_id("c1")

    assert caught.value.filename == str(path)


def test_a_file_that_may_not_be_written_is_not_opened(
    path: Path, store: SQLiteMessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The -wal and -shm files of a reader would keep those from writing who may."""
    store.close()
    monkeypatch.setattr(os, "access", lambda *_: False)

    with pytest.raises(PermissionError, match=path.name):
        opened(path)

    assert os.listdir(path.parent) == [path.name]


def test_a_file_beside_it_that_may_not_be_written_is_named(
    path: Path, store: SQLiteMessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.close()
    beside = Path(f"{path}-wal")
    beside.mkdir()  # SQLite cannot open it
    monkeypatch.setattr(os, "access", lambda file, mode: file != str(beside))

    with pytest.raises(PermissionError, match=r"messages\.db-wal"):
        opened(path)


# Moved, removed and replaced while it is open


def test_a_file_that_was_removed_is_not_written_to(path: Path, store: SQLiteMessageStore) -> None:
    store.store_message(message("m1"))
    for file in path.parent.iterdir():
        file.unlink()

    with pytest.raises(FileNotFoundError, match=r"messages\.db"):
        store.store_message(message("m2"))


def test_a_file_that_was_replaced_is_not_written_to(
    path: Path, tmp_path: Path, store: SQLiteMessageStore
) -> None:
    backup = tmp_path / "backup"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM INTO ?", [str(backup)])
    store.store_message(message("m1"))

    backup.replace(path)

    with pytest.raises(OSError, match="replaced while it was open"):
        store.store_message(message("m2"))


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


@pytest.mark.parametrize("undo", ["ABORT", "ROLLBACK"])
def test_a_constraint_of_the_application_is_an_integrity_error(
    path: Path, store: SQLiteMessageStore, undo: str
) -> None:
    trigger = "CREATE TRIGGER closed BEFORE INSERT ON stored_conversations BEGIN"
    execute(path, f"{trigger} SELECT raise({undo}, 'closed today'); END")

    with pytest.raises(IntegrityError, match="closed today"):
        store.store_conversation(conversation("c2"))
    assert store.get_conversation_by_id("c2") is None


# Limits


def test_a_file_system_without_shared_memory_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda name, **options: connect(f"{name}&vfs=unix-dotfile", **options)
    )
    with pytest.raises(OSError, match="its file system does not support the WAL mode"):
        opened(path)


def test_a_large_file_is_not_rewritten_after_an_erasure(
    store: SQLiteMessageStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "_QUICKLY_REWRITTEN", 0)
    store.erase_user("u1")
    assert "the statement VACUUM removes them" in caplog.text


def test_a_file_whose_creation_was_killed_is_created_again(tmp_path: Path, path: Path) -> None:
    killed = tmp_path / "killed.db"
    with closing(sqlite3.connect(killed)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE any (text)")
        connection.execute("INSERT INTO any VALUES (zeroblob(100000))")
        for suffix in ("", "-journal"):
            shutil.copy(f"{killed}{suffix}", f"{path}{suffix}")

    assert path.stat().st_size
    with opened(path) as store:
        assert store.get_conversations() == []


@pytest.mark.parametrize(
    ("limit", "error", "said"),
    [
        (
            lambda made: made.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000),
            RecordTooLargeError,
            "1 GB",
        ),
        (lambda made: made.execute("PRAGMA max_page_count = 70"), OSError, "No space left"),
    ],
    ids=["record", "disk"],
)
def test_a_record_that_sqlite_or_its_disk_cannot_hold_is_too_large(
    path: Path, monkeypatch: pytest.MonkeyPatch, limit: Any, error: type[Exception], said: str
) -> None:
    connect = sqlite3.connect

    def limited(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        limit(connection)
        return connection

    monkeypatch.setattr(sqlite3, "connect", limited)
    with opened(path) as store:
        store.store_conversation(conversation("c1"))
        with pytest.raises(error, match=said):
            store.store_messages([message("m1"), message("m2", original_content="x" * 200_000)])

        assert store.get_messages_by_conversation_id("c1") == []
        store.store_message(message("m1"))
