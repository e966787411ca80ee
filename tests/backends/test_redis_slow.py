"""Large states over a slow network: what arrives slowly is not taken for lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

from jazzmine.sync import working_memory as sync
from tests.servers.proxy import Proxy
from tests.servers.redis import Server, running

STATES, SIZE, BANDWIDTH, TIMEOUT = 60, 250_000, 4e6, 15.0  # s
NAMES = [f"c{number}" for number in range(STATES)]
ALL = STATES * SIZE


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    server = running(Server)
    server.client.flushdb()
    with Proxy(server.port) as opened:
        yield opened
    server.client.flushdb()


def at_once(call: Callable[[str], object]) -> list[str]:
    """Make a call for each conversation, each in a thread of its own; return the errors."""
    errors: list[str] = []

    def work(name: str) -> None:
        try:
            call(name)
        except Exception as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=work, args=[name]) for name in NAMES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def open_sync(url: str, own: bool) -> Any:
    if own:
        return sync.WorkingMemoryStore.initialize(
            {"storage": "redis", "url": url, "timeout": TIMEOUT}
        )
    client = redis.Redis.from_url(url, socket_timeout=3)
    return sync.RedisWorkingMemoryStore(client, timeout=TIMEOUT)


@pytest.mark.parametrize("own", [True, False])
def test_all_large_states_of_threads_arrive(proxy: Proxy, own: bool) -> None:
    with open_sync(proxy.url, own) as store, open_sync(proxy.url, own) as other:
        for name in NAMES:
            store.get_or_create(name, "user", "agent")
        proxy.bandwidth, proxy.forwarded = BANDWIDTH, 0
        assert at_once(lambda name: store.end_turn(name, "x" * SIZE, "greet")) == []
        assert ALL <= proxy.forwarded < 2 * ALL

        proxy.forwarded = 0
        assert at_once(other.get) == []
        assert ALL <= proxy.forwarded < 2 * ALL
