"""The histories of concurrent calls find stores that are broken on purpose."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from jazzmine import ConflictError, StoreUnavailableError
from jazzmine._sync.clients.sqlite import SQLiteClient
from jazzmine._sync.long_term_memory.sqlite import SQLiteItemBackend
from jazzmine._sync.message_store.json import JSONBackend
from jazzmine.backends.json.database import JSONDatabase
from jazzmine.backends.sqlite.items import ITEM_TABLES
from jazzmine.backends.sqlite.memory_database import MemoryDatabase
from jazzmine.records.conversation_log import Refusal, not_before
from jazzmine.records.hook_arguments import Append, MessagePage, Turn
from jazzmine.records.item_rows import Cursor, ItemChange, ItemConflict, ItemQuery, ItemRow, Outcome
from jazzmine.records.rows import Row, row_id
from jazzmine.records.types import MIN_INT
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from jazzmine.sync.message_store import ANY, Message, MessageStore
from jazzmine.sync.working_memory import InMemoryWorkingMemoryStore
from tests.behaviour.apis import SYNC, as_async
from tests.faults.histories import MemoryRecorder
from tests.faults.linearizability import Operation
from tests.faults.schedules import Fault
from tests.faults.test_histories import prepare
from tests.faults.unordered import Unordered
from tests.faults.workload import Run, read_all, work_at_once, workers_of

UNEXPLAINED = "no order explains"


def check_histories(
    name: str, open_store: Callable[[], Any], *, rounds: int = 10, **how: Any
) -> None:
    """Check several histories: a single one may by chance show nothing, or be too hard.

    Args:
        name: the name of the kind of store.
        open_store: opens a store; a conversation with messages is deleted first.
        rounds: the number of histories.
        how: the arguments of `work`.
    """
    for seed in range(rounds):
        workers = workers_of(name, seed)
        with open_store() as store:
            asyncio.run(prepare(name, as_async(getattr(store, "sound", store))))
            asyncio.run(work_at_once(SYNC, workers, store, 1.0, **how))
            asyncio.run(read_all(workers[0], store))
        Run(name, workers).check()


CLOSELY: dict[str, Any] = {"calls": 25, "pause": 0.0}


# Stores whose calls are late, or lost


class Broken(ABC):
    """Delegates to a store, and breaks one of ten calls."""

    def __init__(self, sound: Any) -> None:
        self.sound = sound
        self._calls = 0
        self._timers: list[threading.Timer] = []

    def __enter__(self) -> Broken:
        return self

    def __exit__(self, *_: object) -> None:
        for timer in self._timers:
            timer.join()
        self.sound.close()

    def happen_later(self, call: Callable[[], Any]) -> None:
        def happen() -> None:
            with suppress(ConflictError):
                call()

        self._timers.append(threading.Timer(0.2, happen))
        self._timers[-1].start()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._call, name, getattr(self.sound, name))

    def _call(self, name: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self._calls += 1
        if self._calls % 10:
            return call(*arguments, **named)
        return self.break_call(name, partial(call, *arguments, **named))

    @abstractmethod
    def break_call(self, name: str, call: Callable[[], Any]) -> Any:
        """Make a call with the defect of the mutant."""


class HappensAfterItWasGivenUp(Broken):
    def break_call(self, name: str, call: Callable[[], Any]) -> Any:
        self.happen_later(call)
        raise StoreUnavailableError("abandoned")


class HappensAgainAfterItReturned(Broken):
    def break_call(self, name: str, call: Callable[[], Any]) -> Any:
        result = call()
        self.happen_later(call)
        return result


class IsAcknowledgedBeforeItHappens(Broken):
    def break_call(self, name: str, call: Callable[[], Any]) -> Any:
        if name.startswith(("get", "end_turn")):
            return call()
        self.happen_later(call)
        return name == "delete_message" or None


class DoesNotHappen(Broken):
    def break_call(self, name: str, call: Callable[[], Any]) -> Any:
        return None if name.startswith("store") else call()


class HappensTwice(Broken):
    def break_call(self, name: str, call: Callable[[], Any]) -> Any:
        if name == "end_turn":
            call()
        return call()


class ErasesLater(Broken):
    def break_call(self, name: str, call: Callable[[], Any]) -> Any:
        if name != "erase_user":
            return call()
        self.happen_later(call)
        return 0


def sound(name: str, folder: Path) -> Any:
    if name == "json":
        return MessageStore.initialize({"path": str(folder / "messages.json"), "fsync": False})
    return LongTermMemoryStore.initialize() if "items" in name else InMemoryWorkingMemoryStore()


@pytest.mark.parametrize("name", ["json", "memory", "memory_items"])
def test_a_sound_store_is_not_blamed(name: str, tmp_path: Path) -> None:
    check_histories(name, lambda: sound(name, tmp_path), rounds=1)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("json", HappensAfterItWasGivenUp),
        ("json", HappensAgainAfterItReturned),
        ("json", IsAcknowledgedBeforeItHappens),
        ("json", DoesNotHappen),
        ("memory", HappensTwice),
        ("memory_items", HappensAfterItWasGivenUp),
        ("memory_items", HappensAgainAfterItReturned),
        ("memory_items", ErasesLater),
    ],
)
def test_a_store_whose_calls_are_late_or_lost_is_found_out(
    name: str, broken: type[Broken], tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=UNEXPLAINED):
        check_histories(name, lambda: broken(sound(name, tmp_path)))


# Stores that read what is old, or write in two steps


def test_a_store_that_reads_deleted_data_is_detected(tmp_path: Path) -> None:
    class ReadsOldData(JSONBackend):
        old: ClassVar[dict[str, Row | None]] = {}

        def get_message(self, message_id: str) -> Row | None:
            new = super().get_message(message_id)
            return self.old.setdefault(message_id, new) if random.random() < 0.5 else new

    with pytest.raises(AssertionError, match=UNEXPLAINED):
        check_histories("json", lambda: json_store(ReadsOldData, tmp_path), **CLOSELY)


def json_store(backend: type[JSONBackend], folder: Path, fsync: bool = False) -> Any:
    database = JSONDatabase(str(folder / "m.json"), fsync, 30.0)
    return MessageStore(backend(SQLiteClient(database))).open()


def test_a_disk_that_fails_after_the_write_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, fsync = random.Random(17), os.fsync

    def fail_at_times(fd: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{fd}") and chance.random() < 0.3:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", fail_at_times)
    with pytest.raises(AssertionError, match=UNEXPLAINED):
        check_histories("json", lambda: json_store(JSONBackend, tmp_path, True), **CLOSELY)


def test_a_working_memory_that_saves_over_anything_is_found_out() -> None:
    with pytest.raises(AssertionError, match=UNEXPLAINED):
        check_histories("memory", Unordered, **CLOSELY)


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
def test_a_log_that_works_in_two_steps_is_found_out(
    broken: type[JSONBackend], tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=UNEXPLAINED):
        check_histories("json_log", lambda: json_store(broken, tmp_path), **CLOSELY)


class ChangesOneAfterAnother(SQLiteItemBackend):
    """Makes each change in a transaction of its own."""

    def apply(self, changes: Sequence[ItemChange]) -> Sequence[Outcome] | ItemConflict:
        outcomes: list[Outcome] = []
        for index, change in enumerate(changes):
            outcome = super().apply([change])
            if isinstance(outcome, ItemConflict):
                return ItemConflict(index, outcome.revision)
            outcomes += outcome
        return outcomes


class ComparesBeforeItWrites(SQLiteItemBackend):
    """Reads the revisions, and changes the items in a step of its own."""

    def apply(self, changes: Sequence[ItemChange]) -> Sequence[Outcome] | ItemConflict:
        found = {
            bytes(row[0]).decode(): row[8] for row in self.get_items([c.path for c in changes])
        }
        for index, change in enumerate(changes):
            revision = found.get(change.path)
            if change.expected not in (ANY, revision):
                return ItemConflict(index, revision)
        time.sleep(0.001)
        return super().apply(
            [ItemChange(change.path, ANY, change.item, change.vector) for change in changes]
        )


class SendsAChangeAgain(SQLiteItemBackend):
    """Changes once more if the first reply is lost."""

    def apply(self, changes: Sequence[ItemChange]) -> Sequence[Outcome] | ItemConflict:
        super().apply(changes)
        return super().apply(changes)


class ListsInTwoSteps(SQLiteItemBackend):
    """Reads a page by halves."""

    def list_items(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        first = super().list_items(query, 1, after)
        if not first:
            return first
        time.sleep(0.001)
        row = first[0]
        cursor = Cursor(bytes(row[0]).decode(), row[6], row[8])
        return [*first, *super().list_items(query, limit, cursor)]


class ErasesOne(SQLiteItemBackend):
    """Says that all items of a user are gone when one of them is."""

    def erase(self, user_id: str, limit: int) -> int:
        super().erase(user_id, 1)
        return 0


@pytest.mark.parametrize(
    "broken",
    [
        ChangesOneAfterAnother,
        ComparesBeforeItWrites,
        SendsAChangeAgain,
        ListsInTwoSteps,
        ErasesOne,
    ],
)
def test_a_long_term_memory_that_works_in_two_steps_is_found_out(
    broken: type[SQLiteItemBackend],
) -> None:
    def open_store() -> Any:
        return LongTermMemoryStore(broken(SQLiteClient(MemoryDatabase(ITEM_TABLES)))).open()

    with pytest.raises(AssertionError, match=UNEXPLAINED):
        check_histories("memory_items", open_store)


CREATED, DELETED = ("create", (1, None)), ("delete", True)


@pytest.mark.parametrize(
    ("calls", "faults", "is_possible"),
    [
        ([CREATED, DELETED, ("read", (1, None))], [0.2], True),
        ([CREATED, DELETED, ("read", (1, None))], [], False),
        ([CREATED, DELETED, ("read", (1, None))], [1.2], False),
        ([CREATED, ("write", (2, "0")), DELETED, ("read", (2, "0"))], [1.2], False),
    ],
)
@pytest.mark.parametrize("name", ["redis", "postgres_memory"])
def test_only_a_creation_that_met_a_fault_may_happen_after_a_deletion(
    name: str, calls: list[tuple[str, Any]], faults: list[float], is_possible: bool
) -> None:
    worker = MemoryRecorder(0)
    worker.history = [
        Operation(name, 0, float(second), second + 0.5, result)
        for second, (name, result) in enumerate(calls)
    ]
    run = Run(name, [worker], [Fault(moment, "held") for moment in faults])

    with nullcontext() if is_possible else pytest.raises(AssertionError, match=UNEXPLAINED):
        run.check()
