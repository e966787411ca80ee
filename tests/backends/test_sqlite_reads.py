"""The connections that read an SQLite database."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from unittest.mock import patch

import pytest

from jazzmine.errors import NotFoundError
from jazzmine.sync.long_term_memory import LongTermMemoryStore, MemoryItem
from tests.backends.sqlite_stores import opened
from tests.behaviour.samples import conversation, message


def test_large_and_refused_reads_keep_their_connection_and_see_each_write(tmp_path: Path) -> None:
    with opened(tmp_path / "agent.db") as store:
        store.store_conversation(conversation("c1"))
        for number in range(3):
            store.store_message(message(f"m{number}", original_content="x" * 200_000))
        with patch.object(sqlite3, "connect", wraps=sqlite3.connect) as connect:
            for number in range(3, 13):
                store.store_message(message(f"m{number}", original_content="x" * 200_000))
                newest = store.get_messages_by_conversation_id("c1", order="newest", limit=3)
                assert [one.id for one in newest] == [f"m{number - back}" for back in range(3)]
                with pytest.raises(NotFoundError):
                    store.get_messages_by_conversation_id("c1", after="nobody's")

        assert connect.call_count <= 1


def test_large_reads_of_items_keep_their_connection_and_see_each_write(tmp_path: Path) -> None:
    def item(key: str) -> MemoryItem:
        return MemoryItem(namespace=("n",), key=key, value={"text": "x" * 300_000})

    with LongTermMemoryStore.initialize(f"sqlite:{tmp_path / 'agent.db'}") as store:
        store.put(item("a"))
        with patch.object(sqlite3, "connect", wraps=sqlite3.connect) as connect:
            for number in range(10):
                store.put(item(f"b{number}"))
                assert len(store.list_items(limit=20)) == 2 + number
                assert store.get(("n",), f"b{number}") is not None

        assert connect.call_count <= 1
