"""A call ends at its deadline with any server that is silent, slow or full."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from jazzmine.errors import StoreUnavailableError
from tests.backends.redis_apis import APIS, open_async
from tests.faults.sizes import TOLERANCE
from tests.servers.proxy import Proxy
from tests.servers.redis import Server, running

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
