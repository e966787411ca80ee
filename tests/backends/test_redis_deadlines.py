"""A call ends at its deadline with any server that is silent, slow or full."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from redis.backoff import NoBackoff

from jazzmine.core import working_memory as core
from jazzmine.errors import StoreUnavailableError
from tests.backends.redis_apis import APIS, open_async
from tests.backends.redis_topologies import Topology, topology
from tests.faults.sizes import TOLERANCE
from tests.servers.proxy import Proxy
from tests.servers.redis import Sentinels, Server, running

# Of a connection that redis-py has given up, the event loop may end before the last bytes are sent.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)

TIMEOUT = 1.5
LATEST = TIMEOUT + 0.5 + TOLERANCE


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def server() -> Iterator[Server]:
    server = running(Server)
    server.client.flushdb()
    yield server
    server.client.flushdb()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.port) as opened:
        yield opened


def test_a_large_write_to_a_silent_server_ends_at_its_deadline(api: Any, server: Server) -> None:
    with api(server.url, timeout=TIMEOUT) as store:
        store.get_or_create("c", "user", "agent")
        block = store.locked("c")
        memory = block.__enter__()
        memory.end_turn("x" * 16_000_000, "greet")
        with server.silent():
            started = time.monotonic()
            with pytest.raises(StoreUnavailableError):
                block.__exit__(None, None, None)
            took = time.monotonic() - started

        assert took < LATEST
        assert store.end_turn("c", "Hello", "greet").last_agent_response == "Hello"


def test_a_reply_that_drips_ends_an_async_call_at_its_deadline(proxy: Proxy) -> None:
    with open_async(proxy.url, timeout=TIMEOUT) as store:
        store.get_or_create("c", "user", "agent")
        store.end_turn("c", "x" * 10_000, "greet")
        proxy.drip = 0.01
        started = time.monotonic()

        with pytest.raises(StoreUnavailableError):
            store.get("c")

        assert time.monotonic() - started < LATEST
        proxy.drip = 0.0
        assert store.get("c") is not None


def test_a_block_that_ends_during_a_stuck_renewal_keeps_its_deadline(
    api: Any, proxy: Proxy
) -> None:
    with api(proxy.url, timeout=TIMEOUT, lease_seconds=3) as store:
        store.get_or_create("c", "user", "agent")
        block = store.locked("c")
        memory = block.__enter__()
        memory.end_turn("Hello", "greet")
        proxy.swallow_replies = True
        threading.Event().wait(1.2)  # until the renewal is under way
        if api is open_async:
            store.run(asyncio.sleep(1.2))
        started = time.monotonic()

        with pytest.raises(StoreUnavailableError):
            block.__exit__(None, None, None)

        assert time.monotonic() - started < LATEST
        proxy.swallow_replies = False
        proxy.cut()
        threading.Event().wait(3.5)  # a lock that could not be released lasts one lease
        assert store.end_turn("c", "Hello again", "greet").last_agent_response == "Hello again"


def elsewhere_and_there(servers: Topology) -> tuple[list[str], list[str]]:
    """Conversations of the first node, and those of the others."""
    names = [f"c{number}" for number in range(30)]
    there = [name for name in names if servers.proxy_of(name) is servers.proxies[0]]
    return there, [name for name in names if name not in there]


def test_conversations_on_healthy_nodes_do_not_wait_for_a_silent_one(api: Any) -> None:
    with topology("cluster", api) as servers:
        silent, healthy = elsewhere_and_there(servers)
        store, other = servers.open(timeout=5), servers.open(timeout=5)
        for name in silent + healthy:
            store.get_or_create(name, "user", "agent")
            other.get(name)
        servers.proxies[0].swallow_replies = True
        slowest = 0.0
        stopped = threading.Event()

        def insist() -> None:
            while not stopped.is_set():
                with pytest.raises(StoreUnavailableError):
                    other.end_turn(silent[0], "Hello", "greet")

        insisting = threading.Thread(target=insist)
        insisting.start()
        for _ in range(4):
            for name in healthy:
                started = time.monotonic()
                store.end_turn(name, "Hello", "greet")
                slowest = max(slowest, time.monotonic() - started)
        stopped.set()
        insisting.join()
        servers.proxies[0].swallow_replies = False
        servers.proxies[0].cut()

        assert slowest < 3


def master_of(sentinels: Sentinels, asynchronous: bool, first: Server) -> Any:
    """A client that asks the silent Sentinel first, as the documentation recommends it."""
    others = [each for each in sentinels.sentinels if each is not first]
    addresses = [("127.0.0.1", each.port) for each in (first, *others)]
    kind: Any = redis.asyncio.sentinel.Sentinel if asynchronous else redis.sentinel.Sentinel
    limits = {"socket_timeout": 1.0, "socket_connect_timeout": 1.0}
    retry: Any = redis.asyncio.retry.Retry if asynchronous else redis.retry.Retry
    sentinel = kind(addresses, sentinel_kwargs={**limits, "retry": retry(NoBackoff(), 0)}, **limits)
    return sentinel.master_for(sentinels.name)


async def test_a_silent_sentinel_delays_no_async_call_for_long() -> None:
    sentinels = running(Sentinels)
    silent = sentinels.sentinels[1]
    client = master_of(sentinels, True, silent)
    async with core.RedisWorkingMemoryStore(client, timeout=10) as store:
        with silent.silent():
            started = time.monotonic()
            await store.get_or_create("c", "user", "agent")
            await store.delete("c")
            took = time.monotonic() - started
    for each in client.connection_pool.sentinel_manager.sentinels:
        await each.aclose()
    await client.aclose()

    assert took < 4 + TOLERANCE
