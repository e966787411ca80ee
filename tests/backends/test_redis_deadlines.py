"""A call ends at its deadline with any server that is absent, silent or slow."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from jazzmine.errors import ConfigurationError, StoreUnavailableError
from tests.behaviour.apis import APIS, ASYNC, Api
from tests.faults.sizes import TOLERANCE
from tests.servers.proxy import Proxy
from tests.servers.redis import Server, free_port, running

# Of a connection that redis-py has given up, the event loop may end before the last bytes are sent.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)

TIMEOUT = 1.5
LATEST = TIMEOUT + 0.5 + TOLERANCE


def config(url: str, **options: object) -> dict[str, object]:
    return {"storage": "redis", "url": url, "timeout": TIMEOUT, **options}


@pytest.fixture(params=APIS, ids=str)
def api(request: pytest.FixtureRequest) -> Api:
    chosen: Api = request.param
    return chosen


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


async def test_nothing_is_opened_where_no_server_is(api: Api) -> None:
    port = free_port()
    started = time.monotonic()

    with pytest.raises(StoreUnavailableError, match=f"127.0.0.1:{port}") as raised:
        await api.WorkingMemoryStore.initialize(f"redis://:swordfish@127.0.0.1:{port}?timeout=5")

    assert time.monotonic() - started < 1 + TOLERANCE
    assert raised.value.__cause__ is not None


async def test_a_server_that_is_silent_from_the_start_ends_opening_at_the_deadline(
    api: Api,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"redis://127.0.0.1:{listener.getsockname()[1]}"
        started = time.monotonic()

        with pytest.raises(StoreUnavailableError):
            await api.WorkingMemoryStore.initialize(config(url))

        assert time.monotonic() - started < LATEST


async def test_a_database_that_the_server_does_not_have_is_refused_at_once(
    api: Api, server: Server
) -> None:
    url = server.url.rpartition("/")[0]

    with pytest.raises(ConfigurationError, match="no database of that number"):
        await api.WorkingMemoryStore.initialize(config(f"{url}/99"))


async def test_a_large_write_to_a_silent_server_ends_at_its_deadline(
    api: Api, server: Server
) -> None:
    async with await api.WorkingMemoryStore.initialize(config(server.url)) as store:
        await store.get_or_create("c", "user", "agent")
        block = store.locked("c")
        memory = await block.__aenter__()
        memory.end_turn("x" * 16_000_000, "greet")
        with server.silent():
            started = time.monotonic()
            with pytest.raises(StoreUnavailableError):
                await block.__aexit__(None, None, None)
            took = time.monotonic() - started

        assert took < LATEST
        assert (await store.end_turn("c", "Hello", "greet")).last_agent_response == "Hello"


async def test_a_reply_that_drips_ends_an_async_call_at_its_deadline(proxy: Proxy) -> None:
    async with await ASYNC.WorkingMemoryStore.initialize(config(proxy.url)) as store:
        await store.get_or_create("c", "user", "agent")
        await store.end_turn("c", "x" * 10_000, "greet")
        proxy.drip = 0.01
        started = time.monotonic()

        with pytest.raises(StoreUnavailableError):
            await store.get("c")

        assert time.monotonic() - started < LATEST
        proxy.drip = 0.0
        assert await store.get("c") is not None


async def test_a_block_that_ends_during_a_stuck_renewal_keeps_its_deadline(
    api: Api, proxy: Proxy
) -> None:
    options = config(proxy.url, lease_seconds=2)
    async with await api.WorkingMemoryStore.initialize(options) as store:
        await store.get_or_create("c", "user", "agent")
        block = store.locked("c")
        memory = await block.__aenter__()
        memory.end_turn("Hello", "greet")
        proxy.swallow_replies = True
        await api.pause(1)  # until the renewal is under way
        started = time.monotonic()

        with pytest.raises(StoreUnavailableError):
            await block.__aexit__(None, None, None)

        assert time.monotonic() - started < LATEST
        proxy.swallow_replies = False
        proxy.cut()
        # A lock that could not be released lasts one lease.
        updated = await store.end_turn("c", "Hello again", "greet")
        assert updated.last_agent_response == "Hello again"
