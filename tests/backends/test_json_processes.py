"""Several processes and many threads on one JSON file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jazzmine.core import message_store as async_messages
from jazzmine.sync.message_store import JSONMessageStore, MessageStore
from tests.behaviour.samples import conversation, message


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages.json"


@pytest.fixture
def store(path: Path) -> Iterator[JSONMessageStore]:
    opened = MessageStore.initialize({"path": str(path), "fsync": False})
    assert isinstance(opened, JSONMessageStore)
    with opened:
        opened.store_conversation(conversation("c1"))
        yield opened


def test_a_read_sees_an_edit_by_hand(path: Path, store: JSONMessageStore) -> None:
    store.store_message(message("m1", original_content="before"))

    path.write_bytes(path.read_bytes().replace(b"before", b"behind"))

    stored = store.get_message_by_id("m1")
    assert stored is not None
    assert stored.original_content == "behind"


def test_a_file_that_is_removed_is_an_empty_store(path: Path, store: JSONMessageStore) -> None:
    path.unlink()

    assert store.get_conversation_by_id("c1") is None


async def test_fifty_writes_at_once_take_two_flushes_at_most(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    flushes = []
    replace = os.replace

    def count(source: str, target: str) -> None:
        flushes.append(target)
        replace(source, target)

    config = {"path": str(path), "fsync": False}
    async with await async_messages.MessageStore.initialize(config) as store:
        await store.store_conversation(conversation("c1"))
        monkeypatch.setattr(os, "replace", count)

        await asyncio.gather(*(store.store_message(message(f"m{n}")) for n in range(50)))

        assert len(await store.get_messages_by_conversation_id("c1")) == 50
    assert 1 <= len(flushes) <= 2
