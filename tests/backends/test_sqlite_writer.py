"""The writing thread of SQLite: calls that wait share a transaction, and end at their deadlines."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from jazzmine import Conversation
from jazzmine.core import message_store as async_messages
from jazzmine.errors import IntegrityError, LockTimeoutError
from jazzmine.records.base import Snapshot, snapshot
from jazzmine.sync.message_store import MessageStore
from tests.backends.sqlite_stores import opened
from tests.behaviour.samples import conversation, message
from tests.faults.sizes import TOLERANCE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "messages.db"
    with opened(path) as store:
        store.store_conversation(conversation("c1"))
    return path


def test_a_call_that_fails_is_undone_without_the_others_of_its_transaction(path: Path) -> None:
    with opened(path) as store:

        def write(number: int) -> str:
            new = [message(f"m{number}"), message(f"n{number}")]
            if number % 2:
                new[1] = message(f"n{number}", conversation_id="nobody's")
            try:
                store.store_messages(new)
            except IntegrityError:
                return "refused"
            return "stored"

        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with ThreadPoolExecutor(16) as threads:
                outcomes = threads.map(write, range(16))
                time.sleep(0.1)
                other.execute("COMMIT")

        assert list(outcomes) == ["stored", "refused"] * 8
        assert len(store.get_messages_by_conversation_id("c1")) == 16


async def test_a_call_that_is_cancelled_before_it_is_begun_changes_nothing(path: Path) -> None:
    config = {"storage": "sqlite", "path": str(path)}
    async with await async_messages.MessageStore.initialize(config) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            calls = [
                asyncio.ensure_future(store.store_message(message(f"m{number}")))
                for number in range(3)
            ]
            await asyncio.sleep(0.05)
            calls[1].cancel()
            await asyncio.wait([calls[1]])
            other.execute("COMMIT")

        await asyncio.gather(calls[0], calls[2])
        stored = await store.get_messages_by_conversation_id("c1")
        assert [one.id for one in stored] == ["m0", "m2"]


async def test_a_call_that_is_cancelled_while_its_change_is_made_ends_after_it(path: Path) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def change(_: object) -> Snapshot[Conversation]:
        loop.call_soon_threadsafe(begun.set)
        time.sleep(0.2)
        return snapshot(conversation("c1", title="new"), Conversation)

    config = {"storage": "sqlite", "path": str(path)}
    async with await async_messages.MessageStore.initialize(config) as store:
        call = asyncio.ensure_future(store.backend.rewrite("conversations", ["c1"], change))
        await begun.wait()
        call.cancel()
        await asyncio.wait([call])

        stored = await store.get_conversation_by_id("c1")
        assert stored is not None
        assert (call.cancelled(), stored.title) == (True, "new")


def test_a_call_behind_a_long_change_ends_at_its_own_deadline(path: Path) -> None:
    """Its transaction has not begun; what was begun is done."""
    begun = threading.Event()

    with MessageStore.initialize({"storage": "sqlite", "path": str(path), "timeout": 0.3}) as store:

        def change(_: object) -> None:
            begun.set()
            time.sleep(1.5)

        with ThreadPoolExecutor(1) as threads:
            slow = threads.submit(store.backend.rewrite, "conversations", ["c1"], change)
            begun.wait(10)
            before = time.monotonic()
            with pytest.raises(LockTimeoutError, match="nothing was written"):
                store.store_message(message("m1"))
            assert time.monotonic() - before < 0.8 + TOLERANCE
            slow.exception()

        assert store.get_message_by_id("m1") is None


def test_a_store_that_is_dropped_ends_its_thread(path: Path) -> None:
    def writers() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one.name == "jazzmine-writer"]

    before = writers()
    store = opened(path)
    store.store_message(message("m1"))
    [thread] = set(writers()) - set(before)

    del store
    gc.collect()

    thread.join(10)
    assert not thread.is_alive()
