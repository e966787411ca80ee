"""The histories of concurrent calls find stores that are broken on purpose."""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine._sync.clients.sqlite import SQLiteClient
from jazzmine._sync.message_store.json import JSONBackend
from jazzmine.backends.json.database import JSONDatabase
from jazzmine.records.conversation_log import Refusal, not_before
from jazzmine.records.hook_arguments import Append, MessagePage, Turn
from jazzmine.records.rows import Row, row_id
from jazzmine.records.types import MIN_INT
from jazzmine.sync.message_store import ANY, Message, MessageStore
from tests.behaviour.apis import SYNC, as_async
from tests.faults.history_checks import check
from tests.faults.test_histories import call_at_once, clients, prepare
from tests.faults.unordered import Unordered

UNEXPLAINED = "no order of the calls"


def check_histories(name: str, store: Any, is_log: bool = False) -> None:
    """Check several histories: a single one may by chance show nothing, or be too hard."""
    for seed in range(10):
        asyncio.run(prepare(name, as_async(store)))
        recorders = clients(name, seed, is_log)
        asyncio.run(call_at_once(SYNC, recorders, as_async(store)))
        check(name, recorders)


def test_a_store_that_reads_deleted_data_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old: dict[str, Any] = {}

    with MessageStore.initialize({"path": str(tmp_path / "m.json")}) as store:
        read = store.get_message_by_id

        def read_an_older_one(message_id: str) -> Message | None:
            new = read(message_id)
            return old.setdefault(message_id, new) if random.random() < 0.5 else new

        monkeypatch.setattr(store, "get_message_by_id", read_an_older_one)
        with pytest.raises(AssertionError, match=UNEXPLAINED):
            check_histories("json", store)


def test_a_disk_that_fails_after_the_write_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, fsync = random.Random(17), os.fsync

    def fail_at_times(fd: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{fd}") and chance.random() < 0.3:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", fail_at_times)
    with (
        MessageStore.initialize({"path": str(tmp_path / "m.json")}) as store,
        pytest.raises(AssertionError, match=UNEXPLAINED),
    ):
        check_histories("json", store)


def test_a_working_memory_that_saves_over_anything_is_found_out() -> None:
    with Unordered() as store, pytest.raises(AssertionError, match=UNEXPLAINED):
        check_histories("memory", store)


class AppendsWithoutALock(JSONBackend):
    """Reads what is newest, and stores the messages in a step of its own."""

    def append(self, given: Append) -> int | Refusal:
        stored = self.get_messages([message.record.id for message in given.messages])
        rows = self.list_messages(MessagePage("conversation_id", given.conversation_id, None, None))
        newest = None if not rows else Message.model_validate_json(rows[-1][1])
        newest_id = None if newest is None else newest.id
        if stored or given.expected_last not in (ANY, newest_id):
            return Refusal(is_known=True, newest_id=newest_id, stored=stored)
        floor = MIN_INT if newest is None else newest.timestamp
        messages = [not_before(floor, message) for message in given.messages]
        self.store(Turn((), messages, [given.trace] if given.trace else []))
        return floor


class PopsWhatItHasRead(JSONBackend):
    """Reads the newest message, and deletes it in a step of its own."""

    def pop(self, conversation_id: str, check: Callable[[Row], object]) -> Row | None:
        rows = self.list_messages(MessagePage("conversation_id", conversation_id, None, None))
        if rows:
            self.delete_message(row_id(rows[-1]))
        return rows[-1] if rows else None


class RewindsByCounting(JSONBackend):
    """Counts the messages to delete, and then deletes as many of the newest."""

    def rewind(self, conversation_id: str, after: str | None) -> int:
        later = self.list_messages(MessagePage("conversation_id", conversation_id, None, after))
        for _ in later:
            super().pop(conversation_id, bool)
        return len(later)


class SendsAPopAgain(JSONBackend):
    """Pops once more if the first reply is lost."""

    def pop(self, conversation_id: str, check: Callable[[Row], object]) -> Row | None:
        super().pop(conversation_id, check)
        return super().pop(conversation_id, check)


@pytest.mark.parametrize(
    "broken", [AppendsWithoutALock, PopsWhatItHasRead, RewindsByCounting, SendsAPopAgain]
)
def test_a_store_that_works_in_two_steps_is_found_out(
    broken: type[JSONBackend], tmp_path: Path
) -> None:
    database = JSONDatabase(str(tmp_path / "m.json"), False, 30.0)
    with (
        MessageStore(broken(SQLiteClient(database))).open() as store,
        pytest.raises(AssertionError, match=UNEXPLAINED),
    ):
        check_histories("json", store, is_log=True)
