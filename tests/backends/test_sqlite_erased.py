"""What was erased is in none of the database's files, also where pages were split."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from jazzmine import Conversation, Message, MessageRole
from jazzmine.sync.message_store import MessageStore
from tests.backends.sqlite_stores import opened

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


def erase(store: MessageStore) -> None:
    for number in range(0, USERS, 2):
        store.erase_user(erased_user(number))


def prune(store: MessageStore) -> None:
    for number in range(0, USERS, 2):
        old = store.get_conversation_by_id(f"c{number}")
        assert old is not None
        store.update_conversation(old.model_copy(update={"last_updated_at": 0}))
    assert store.prune_conversations(before=2000) == USERS // 2


@pytest.mark.parametrize(("delete", "word"), [(erase, "-{}-erased"), (prune, "secret-{}-erased")])
def test_nothing_of_what_was_deleted_is_left_in_the_raw_files(
    tmp_path: Path, delete: Callable[[MessageStore], None], word: str
) -> None:
    path = tmp_path / "agent.db"
    with opened(path) as store:
        fill(store)
        delete(store)

        found = raw(path)

    assert not [n for n in range(0, USERS, 2) if word.format(n).encode() in found]
    assert all(word.format(n).encode() in found for n in range(1, USERS, 2))


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
