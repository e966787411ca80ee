"""A server is killed under load and restarted: acknowledged writes are stored once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from jazzmine import LockLostError, LockTimeoutError, NotFoundError, StoreUnavailableError
from jazzmine.core.working_memory import ToolCallRecord, TurnCache
from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.behaviour.samples import conversation, message
from tests.faults.sizes import report, size
from tests.servers import mongodb, postgres, redis

KILLS = size(1, 20)
WRITERS = 5
Config = dict[str, object]
Kill = Callable[[], None]


@contextmanager
def postgres_server() -> Iterator[tuple[Config, Kill]]:
    with postgres.Server("18", fsync=True) as server:

        def kill() -> None:
            server.stop(signal.SIGQUIT)
            server.start()

        yield {"storage": "postgres", "dsn": server.dsn, "timeout": 30.0}, kill


@contextmanager
def postgres_memory_server() -> Iterator[tuple[Config, Kill]]:
    with postgres_server() as (config, kill):
        yield {**config, "lock_timeout": 30}, kill


@contextmanager
def mongodb_server() -> Iterator[tuple[Config, Kill]]:
    with mongodb.Server() as server:

        def kill() -> None:
            server.kill()
            server.start()

        yield {"storage": "mongodb", "uri": server.url, "timeout": 30.0}, kill


@contextmanager
def redis_server() -> Iterator[tuple[Config, Kill]]:
    # Every write is on the disk before it is acknowledged, as on the other servers.
    with redis.Server("--appendonly", "yes", "--appendfsync", "always") as server:

        def kill() -> None:
            server.kill()
            server.start()

        yield {"storage": "redis", "url": server.url, "timeout": 30.0, "lock_timeout": 30}, kill


SERVERS = {
    "postgres": postgres_server,
    "mongodb": mongodb_server,
    "redis": redis_server,
    "postgres_memory": postgres_memory_server,
}


class Messages:
    """A message store as a list of names."""

    def __init__(self, config: Config) -> None:
        self.store = MessageStore.initialize(config)
        self.store.store_conversation(conversation("c1"))

    def write(self, name: str) -> None:
        """Store a message."""
        self.store.store_message(message(name))

    def names(self) -> list[str]:
        """All that is stored."""
        return [found.id for found in self.store.iter_messages("c1")]


class ToolCalls:
    """A working memory as a list of names, which may contain a name twice."""

    def __init__(self, config: Config) -> None:
        self.store = WorkingMemoryStore.initialize(config)
        self.store.get_or_create("c1", "u1", "a1")
        self.store.begin_turn("c1", TurnCache(1))

    def write(self, name: str) -> None:
        """Record a tool call."""
        self.store.record_tool_call("c1", ToolCallRecord(name, {}))

    def names(self) -> list[str]:
        """All that is stored."""
        memory = self.store.get("c1")
        assert memory is not None
        assert memory.current_turn is not None
        return [call.tool_name for call in memory.current_turn.tool_calls]


KINDS: dict[str, Any] = {
    "postgres": Messages,
    "mongodb": Messages,
    "redis": ToolCalls,
    "postgres_memory": ToolCalls,
}


class Writer:
    """Writes one name after the other, and records those that were acknowledged."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.acknowledged: list[str] = []

    def run(self, write: Callable[[str], None], over: threading.Event) -> None:
        """Write until it is stopped."""
        number = 0
        while not over.is_set():
            number += 1
            name = f"{self._name}-{number}"
            try:
                write(name)
            except (StoreUnavailableError, LockLostError, LockTimeoutError):
                continue
            self.acknowledged.append(name)


def kill_under_load(kind: Any, write: Callable[[str], None], kill: Kill) -> int:
    """Kill the server during writes, and fail unless all acknowledged names are stored once."""
    over = threading.Event()
    writers = [Writer(f"w{number}") for number in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as threads:
        work = [threads.submit(writer.run, write, over) for writer in writers]
        for _ in range(KILLS):
            time.sleep(0.3)
            kill()
        time.sleep(0.3)
        over.set()
    for one in work:
        one.result()
    acknowledged = [one for writer in writers for one in writer.acknowledged]
    stored = kind.names()
    assert len(stored) == len(set(stored)), "a write is there twice"
    assert set(acknowledged) <= set(stored), "an acknowledged write is lost"
    return len(acknowledged)


@pytest.mark.parametrize("name", SERVERS)
def test_acknowledged_writes_outlive_a_server_that_is_killed(name: str) -> None:
    with SERVERS[name]() as (config, kill):
        kind = KINDS[name](config)
        with kind.store:
            written = kill_under_load(kind, kind.write, kill)

    assert written > KILLS
    report(
        f"server killed, {name}: {KILLS} kills, {written} acknowledged writes: 0 lost, 0 doubled"
    )


def test_a_server_that_acknowledges_before_it_flushes_is_found_out() -> None:
    with redis.Server() as server:
        kind = ToolCalls({"storage": "redis", "url": server.url, "timeout": 30.0})

        def kill() -> None:
            server.kill()
            server.start()
            kind.store.get_or_create("c1", "u1", "a1")
            kind.store.begin_turn("c1", TurnCache(1))

        def write(name: str) -> None:
            with suppress(NotFoundError):
                kind.write(name)

        with kind.store, pytest.raises(AssertionError, match="an acknowledged write is lost"):
            kill_under_load(kind, write, kill)


def test_a_store_that_repeats_a_completed_write_is_detected() -> None:
    with redis_server() as (config, kill):
        kind = ToolCalls(config)

        def write_and_doubt(name: str) -> None:
            kind.write(name)
            if name.endswith("7"):
                kind.write(name)

        with kind.store, pytest.raises(AssertionError, match="a write is there twice"):
            kill_under_load(kind, write_and_doubt, kill)
