"""A server is killed under load and restarted: acknowledged writes are stored once."""

from __future__ import annotations

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
from tests.faults.networks import Config, is_memory
from tests.faults.sizes import report, size
from tests.servers import mongodb, postgres, redis

KILLS = size(1, 20)
WRITERS = 5
STORES = ["postgres", "mongodb", "redis", "postgres_memory"]


@contextmanager
def started(name: str) -> Iterator[tuple[Config, Any]]:
    """A server whose writes are on the disk before they are acknowledged."""
    config: Config = {"timeout": 30.0, **({"lock_timeout": 30} if is_memory(name) else {})}
    if name.startswith("postgres"):
        with postgres.Server("18", fsync=True) as server:
            yield {**config, "storage": "postgres", "dsn": server.dsn}, server
    elif name == "mongodb":
        with mongodb.Server() as server:
            yield {**config, "storage": "mongodb", "uri": server.url}, server
    else:
        with redis.Server("--appendonly", "yes", "--appendfsync", "always") as server:
            yield {**config, "storage": "redis", "url": server.url}, server


class Messages:
    """A message store as a list of names."""

    def __init__(self, config: Config) -> None:
        self.store = MessageStore.initialize(config)
        self.store.store_conversation(conversation("c1"))

    def write(self, name: str) -> None:
        self.store.store_message(message(name))

    def names(self) -> list[str]:
        return [found.id for found in self.store.iter_messages("c1")]


class ToolCalls:
    """A working memory as a list of names, which may contain a name twice."""

    def __init__(self, config: Config) -> None:
        self.store = WorkingMemoryStore.initialize(config)
        self.begin()

    def begin(self) -> None:
        self.store.get_or_create("c1", "u1", "a1")
        self.store.begin_turn("c1", TurnCache(1))

    def write(self, name: str) -> None:
        self.store.record_tool_call("c1", ToolCallRecord(name, {}))

    def names(self) -> list[str]:
        memory = self.store.get("c1")
        assert memory is not None
        assert memory.current_turn is not None
        return [call.tool_name for call in memory.current_turn.tool_calls]


def kill_under_load(
    kind: Messages | ToolCalls,
    server: Any,
    write: Callable[[str], None],
    begin_anew: Callable[[], None] = lambda: None,
) -> int:
    """Kill the server during writes, and fail unless all acknowledged names are stored once."""
    over = threading.Event()

    def write_many(writer: int) -> list[str]:
        """Write one name after the other; return those that were acknowledged."""
        acknowledged, number = [], 0
        while not over.is_set():
            number += 1
            with suppress(StoreUnavailableError, LockLostError, LockTimeoutError):
                write(f"w{writer}-{number}")
                acknowledged.append(f"w{writer}-{number}")
        return acknowledged

    with ThreadPoolExecutor(WRITERS) as threads:
        work = [threads.submit(write_many, writer) for writer in range(WRITERS)]
        for _ in range(KILLS):
            time.sleep(0.2)
            server.kill()
            server.start()
            begin_anew()
        time.sleep(0.2)
        over.set()
    acknowledged = [name for one in work for name in one.result()]
    stored = kind.names()
    assert len(stored) == len(set(stored)), "a write is there twice"
    assert set(acknowledged) <= set(stored), "an acknowledged write is lost"
    return len(acknowledged)


@pytest.mark.parametrize("name", STORES)
def test_acknowledged_writes_outlive_a_server_that_is_killed(name: str) -> None:
    with started(name) as (config, server):
        kind = ToolCalls(config) if is_memory(name) else Messages(config)
        with kind.store:
            written = kill_under_load(kind, server, kind.write)

    assert written > KILLS
    report(
        f"server killed, {name}: {KILLS} kills, {written} acknowledged writes: 0 lost, 0 doubled"
    )


def test_a_server_that_acknowledges_before_it_flushes_is_found_out() -> None:
    with redis.Server() as server:
        kind = ToolCalls({"storage": "redis", "url": server.url, "timeout": 30.0})

        def write(name: str) -> None:
            with suppress(NotFoundError):
                kind.write(name)

        with kind.store, pytest.raises(AssertionError, match="an acknowledged write is lost"):
            kill_under_load(kind, server, write, kind.begin)


def test_a_store_that_repeats_a_completed_write_is_detected() -> None:
    with started("redis") as (config, server):
        kind = ToolCalls(config)

        def write_and_doubt(name: str) -> None:
            kind.write(name)
            if name.endswith("7"):
                kind.write(name)

        with kind.store, pytest.raises(AssertionError, match="a write is there twice"):
            kill_under_load(kind, server, write_and_doubt)
