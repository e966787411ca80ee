"""A server is killed under load and started again: what was acknowledged is there, once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from jazzmine import StoreUnavailableError
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation, message
from tests.faults.sizes import size, tell
from tests.servers import mongodb, postgres

KILLS = size(2, 20)
WRITERS = 5
Config = dict[str, object]
Kill = Callable[[], None]


@contextmanager
def postgres_server() -> Iterator[tuple[Config, Kill]]:
    with postgres.Server("18", fsync=True) as server:

        def kill() -> None:
            server.stop(signal.SIGQUIT)
            server.start()

        yield {"storage": "postgres", "dsn": server.dsn, "timeout": 20.0}, kill


@contextmanager
def mongodb_server() -> Iterator[tuple[Config, Kill]]:
    with mongodb.Server() as server:

        def kill() -> None:
            server.kill()
            server.start()

        yield {"storage": "mongodb", "uri": server.url, "timeout": 20.0}, kill


SERVERS = {"postgres": postgres_server, "mongodb": mongodb_server}


class Writer:
    """Stores one message after the other, and keeps the ids of those that were acknowledged."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.acknowledged: list[str] = []

    def run(self, store: MessageStore, over: threading.Event) -> None:
        """Write until it is over."""
        number = 0
        while not over.is_set():
            number += 1
            message_id = f"{self._name}-{number}"
            try:
                store.store_message(message(message_id))
            except StoreUnavailableError:
                continue
            self.acknowledged.append(message_id)


def kill_under_load(config: Config, kill: Kill, writing: Any = None) -> int:
    """Kill the server while it is written to, and fail unless all that it said is true."""
    with MessageStore.initialize(config) as store:
        store.store_conversation(conversation("c1"))
        over = threading.Event()
        writers = [Writer(f"w{number}") for number in range(WRITERS)]
        with ThreadPoolExecutor(WRITERS) as threads:
            for writer in writers:
                threads.submit(writer.run, writing or store, over)
            for _ in range(KILLS):
                time.sleep(0.3)
                kill()
            time.sleep(0.3)
            over.set()
        acknowledged = [one for writer in writers for one in writer.acknowledged]
        stored = [found.id for found in store.iter_messages("c1")]
    assert len(stored) == len(set(stored)), "a write is there twice"
    assert set(acknowledged) <= set(stored), "an acknowledged write is lost"
    return len(acknowledged)


@pytest.mark.parametrize("name", SERVERS)
def test_what_was_acknowledged_outlives_a_server_that_is_killed(name: str) -> None:
    with SERVERS[name]() as (config, kill):
        written = kill_under_load(config, kill)

    assert written > KILLS
    tell(f"server killed, {name}: {KILLS} kills, {written} acknowledged writes: 0 lost, 0 doubled")


class Hasty:
    """A store that says that it has written before it has."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1)

    def store_message(self, record: Any) -> None:
        """Promise to store it."""
        self._thread.submit(self._store.store_message, record)

    def forget(self) -> None:
        """Lose what was only promised."""
        self._thread.shutdown(cancel_futures=True)


def test_a_store_that_acknowledges_too_early_is_found_out() -> None:
    with SERVERS["postgres"]() as (config, kill), MessageStore.initialize(config) as store:
        store.ping()
        hasty = Hasty(store)

        def forget_and_kill() -> None:
            hasty.forget()
            kill()

        with pytest.raises(AssertionError, match="an acknowledged write is lost"):
            kill_under_load(config, forget_and_kill, hasty)
