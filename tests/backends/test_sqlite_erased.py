"""What was erased is in none of the database's files, also where pages were split."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from jazzmine import Conversation, Message, MessageRole
from jazzmine.backends.sqlite import database
from jazzmine.sync.message_store import MessageStore
from tests.backends.sqlite_stores import opened
from tests.behaviour.samples import conversation, message

USERS = 60


def erased_user(number: int) -> str:
    return f"user-{number}-erased"


def fill(store: MessageStore) -> None:
    """Store messages of many users in any order, and so that pages are split."""
    chance = random.Random(5)
    for number in range(USERS):
        user = erased_user(number)
        store.store_conversation(Conversation(id=f"c{number}", user_id=user, agent_id="a"))
    numbers = [number for number in range(USERS) for _ in range(20)]
    chance.shuffle(numbers)
    store.store_messages(
        Message(
            id=f"{chance.random()}",
            conversation_id=f"c{number}",
            user_id=erased_user(number),
            role=MessageRole.USER,
            original_content=f"secret-{number}-erased " * chance.randint(1, 20),
            timestamp=chance.randint(1, 1000),
        )
        for number in numbers
    )


def raw(path: Path) -> bytes:
    files = (Path(f"{path}{suffix}") for suffix in ("", "-wal"))
    return b"".join(file.read_bytes() for file in files if file.exists())


def test_no_text_or_id_of_an_erased_user_is_left_in_the_raw_files(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with opened(path) as store:
        fill(store)
        for number in range(0, USERS, 2):
            store.erase_user(erased_user(number))

        found = raw(path)

    assert not [n for n in range(0, USERS, 2) if f"-{n}-erased".encode() in found]
    assert all(f"-{n}-erased".encode() in found for n in range(1, USERS, 2))


def test_no_text_of_a_pruned_conversation_is_left_in_the_raw_files(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with opened(path) as store:
        fill(store)
        for number in range(0, USERS, 2):
            old = Conversation(
                id=f"c{number}",
                user_id=erased_user(number),
                agent_id="a",
                created_at=0,
                last_updated_at=0,
            )
            store.update_conversation(old)

        assert store.prune_conversations(before=2000) == USERS // 2

        found = raw(path)
    assert not [n for n in range(0, USERS, 2) if f"secret-{n}-erased".encode() in found]


def test_a_log_that_is_read_during_an_erasure_is_emptied_after_a_later_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_EMPTIED_EVERY", 0.0)
    path = tmp_path / "agent.db"
    with MessageStore.initialize({"storage": "sqlite", "path": str(path), "timeout": 0.3}) as store:
        fill(store)
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM stored_messages").fetchone()
            store.erase_user(erased_user(0))
            assert "deleted text may be left" in caplog.text
            reader.execute("COMMIT")

        store.store_conversation(Conversation(id="later", user_id="u", agent_id="a"))

        assert b"-0-erased" not in raw(path)


def test_an_erasure_beside_a_long_read_writes_the_file_once(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with MessageStore.initialize({"storage": "sqlite", "path": str(path), "timeout": 2}) as store:
        fill(store)
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM stored_messages").fetchone()
            before = len(raw(path))
            store.erase_user(erased_user(0))
            assert len(raw(path)) < 3 * before


def test_reads_that_overlap_do_not_let_the_log_grow_without_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_EMPTIED_EVERY", 0.0)
    monkeypatch.setattr(database, "_LARGE_LOG", 200_000)
    path = tmp_path / "agent.db"
    is_over = threading.Event()
    largest = 0

    def read() -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            while not is_over.is_set():
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM stored_messages").fetchone()
                time.sleep(0.02)
                connection.execute("COMMIT")

    with opened(path) as store:
        store.store_conversation(conversation("c1"))
        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        for number in range(300):
            store.store_message(message(f"m{number}", original_content="x" * 20_000))
            largest = max(largest, Path(f"{path}-wal").stat().st_size)
        is_over.set()
        for reader in readers:
            reader.join(30)

    # 300 messages make a log of 12 MB.
    assert largest < 4_000_000
