"""The suite of random schedules detects stores with deliberate defects."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from jazzmine import ConflictError, Message, StoreUnavailableError
from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import InMemoryWorkingMemoryStore
from tests.behaviour.samples import conversation
from tests.faults.schedules import Schedule
from tests.faults.workload import TIMEOUT, Run, call_at_once, read_all, recorders
from tests.servers import postgres
from tests.servers.proxy import Proxy

SECONDS = 1.0
EVERY = 10  # one of these calls is broken
LATER = 0.2


class Broken(ABC):
    """Delegates to a store, and breaks some of its calls."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._calls = 0
        self._timers: list[threading.Timer] = []

    def happen_later(self, call: Callable[[], Any]) -> None:
        timer = threading.Timer(LATER, _ignoring_conflicts, [call])
        self._timers.append(timer)
        timer.start()

    def settle(self) -> None:
        for timer in self._timers:
            timer.join()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._call, name, getattr(self._store, name))

    def _call(self, name: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self._calls += 1
        if self._calls % EVERY:
            return call(*arguments, **named)
        return self.break_call(name, partial(call, *arguments, **named))

    @abstractmethod
    def break_call(self, name: str, call: Callable[[], Any]) -> Any:
        """Make a call with the defect of the mutant."""


def _ignoring_conflicts(call: Callable[[], Any]) -> None:
    with suppress(ConflictError):
        call()


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


def run_messages(store: Any) -> Run:
    workers = recorders("json", 1)
    store.store_conversation(conversation())
    call_at_once(workers, store, SECONDS)
    settle(store)
    read_all(workers[0], store)
    settle(store)
    return Run("json", workers)


def settle(store: Any) -> None:
    """Wait for the scheduled functions."""
    if isinstance(store, Broken):
        store.settle()


@pytest.fixture
def messages(tmp_path: Path) -> Iterator[MessageStore]:
    config = {"path": str(tmp_path / "messages.json"), "fsync": False}
    with MessageStore.initialize(config) as store:
        yield store


def test_a_sound_message_store_is_not_blamed(messages: MessageStore) -> None:
    run_messages(messages).check()


@pytest.mark.parametrize(
    "mutant",
    [
        HappensAfterItWasGivenUp,
        HappensAgainAfterItReturned,
        IsAcknowledgedBeforeItHappens,
        DoesNotHappen,
    ],
)
def test_a_broken_message_store_is_caught(mutant: type[Broken], messages: MessageStore) -> None:
    with pytest.raises(AssertionError, match="no order explains"):
        run_messages(mutant(messages)).check()


def run_memories(store: Any, seed: int = 1) -> Run:
    workers = recorders("redis", seed)
    call_at_once(workers, store, SECONDS)
    read_all(workers[0], store)
    return Run("redis", workers)


def test_a_sound_working_memory_is_not_blamed() -> None:
    with InMemoryWorkingMemoryStore() as store:
        run_memories(store).check()


def test_a_broken_working_memory_is_caught() -> None:
    # A busy machine may make too few calls in one run.
    assert any(twice_is_caught(seed) for seed in range(10))


def twice_is_caught(seed: int) -> bool:
    with InMemoryWorkingMemoryStore() as store:
        try:
            run_memories(HappensTwice(store), seed).check()
        except AssertionError as error:
            return "no order" in str(error)
    return False


class Unfenced:
    """Repeats a statement on another connection, and lets the first attempt take effect later."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._local = threading.local()
        self._opened: list[psycopg.Connection[Any]] = []

    def close(self) -> None:
        for connection in self._opened:
            connection.close()

    def empty(self) -> None:
        self._execute("DELETE FROM records", [])

    def store_message(self, message: Message) -> None:
        self._execute(
            "INSERT INTO records VALUES (%s, %s)"
            " ON CONFLICT (id) DO UPDATE SET content = excluded.content",
            [message.id, message.model_dump_json()],
        )

    def store_messages(self, messages: list[Message]) -> None:
        self.store_message(messages[0])

    def store_turn(self, messages: list[Message]) -> None:
        self.store_message(messages[0])

    def get_message_by_id(self, message_id: str) -> Message | None:
        rows = self._execute("SELECT content FROM records WHERE id = %s", [message_id])
        return Message.model_validate_json(rows[0][0]) if rows else None

    def _execute(self, query: str, arguments: list[str]) -> list[Any]:
        until = time.monotonic() + TIMEOUT
        while time.monotonic() < until:
            try:
                cursor = self._connected().execute(query.encode(), arguments)
                return cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError:
                self._local.connection = None
                time.sleep(0.01)
        raise StoreUnavailableError("abandoned")

    def _connected(self) -> psycopg.Connection[Any]:
        if getattr(self._local, "connection", None) is None:
            self._local.connection = postgres.connect(self._dsn, connect_timeout=5)
            self._opened.append(self._local.connection)
        connection: psycopg.Connection[Any] = self._local.connection
        return connection


def test_a_store_that_fences_nothing_is_caught() -> None:
    address = postgres.dsn()
    with postgres.new_schema() as schema, Proxy(postgres.port_of(address)) as proxy:
        options = f"-c search_path={schema}"
        with postgres.connect(address) as connection:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
            table = f"CREATE TABLE {schema}.records (id text PRIMARY KEY, content text)"
            connection.execute(table.encode())
        dsn = postgres.changed(address, host="127.0.0.1", port=proxy.port, options=options)
        with closing(Unfenced(dsn)) as store:
            assert any(is_caught(store, proxy, seed) for seed in range(10))


def is_caught(store: Unfenced, proxy: Proxy, seed: int) -> bool:
    store.empty()
    workers = recorders("postgres", seed, without=["delete"])
    with Schedule(proxy, seed, pause=0.1, longest=1.0, only_held=True) as schedule:
        call_at_once(workers, store, 2 * SECONDS)
    time.sleep(LATER)
    read_all(workers[0], store)
    try:
        Run("postgres", workers, schedule.faults).check()
    except AssertionError:
        return True
    return False
