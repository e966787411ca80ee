"""A Redis server that is killed, restarted, silent or absent: calls end at their deadline."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from jazzmine.errors import ConfigurationError, LockLostError, StoreUnavailableError
from tests.backends.redis_apis import APIS
from tests.faults.sizes import TOLERANCE
from tests.servers.proxy import Proxy
from tests.servers.redis import Server, free_port

TIMEOUT = 1.0
LATEST = TIMEOUT + 0.5 + TOLERANCE


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


@pytest.fixture
def store(api: Any, server: Server) -> Iterator[Any]:
    server.client.flushdb()
    with api(server.url, timeout=TIMEOUT) as opened:
        opened.get_or_create("c", "user", "agent")
        yield opened


CALLS = {
    "get": lambda store: store.get("c"),
    "get_or_create": lambda store: store.get_or_create("c", "user", "agent"),
    "end_turn": lambda store: store.end_turn("c", "Hello", "greet"),
    "delete": lambda store: store.delete("c"),
    "active_count": lambda store: store.active_count(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_silent_server_ends_a_call_at_its_deadline(store: Any, server: Server, name: str) -> None:
    started = time.monotonic()

    with server.silent(), pytest.raises(StoreUnavailableError, match=f"127.0.0.1:{server.port}"):
        CALLS[name](store)

    assert time.monotonic() - started < LATEST
    # The deletion may have taken effect.
    assert store.get_or_create("c", "user", "agent") is not None
    assert store.end_turn("c", "Hello", "greet") is not None


def test_a_server_that_falls_silent_in_a_block_ends_it_at_the_deadline(
    store: Any, server: Server
) -> None:
    started = 0.0

    def fall_silent() -> None:
        nonlocal started
        with store.locked("c") as memory:
            memory.end_turn("Hello", "greet")
            silence.__enter__()
            started = time.monotonic()

    silence = server.silent()
    with pytest.raises(StoreUnavailableError):
        fall_silent()
    took = time.monotonic() - started
    silence.__exit__(None, None, None)

    assert took < LATEST
    assert store.end_turn("c", "Hello again", "greet").last_agent_response == "Hello again"


def test_requests_that_vanish_end_a_call_at_its_deadline(api: Any, server: Server) -> None:
    with Proxy(server.port) as proxy, api(proxy.url, timeout=TIMEOUT) as store:
        store.get_or_create("c", "user", "agent")
        proxy.swallow_requests = True
        started = time.monotonic()

        with pytest.raises(StoreUnavailableError):
            store.get("c")

        assert time.monotonic() - started < LATEST
        proxy.swallow_requests = False
        assert store.get("c") is not None


def test_a_reply_that_vanishes_is_asked_for_again(api: Any, server: Server) -> None:
    server.client.flushdb()
    with Proxy(server.port) as proxy, api(proxy.url, timeout=3) as store:
        store.get_or_create("c", "user", "agent")
        proxy.swallow_replies = True
        threading.Timer(0.5, lambda: setattr(proxy, "swallow_replies", False)).start()

        updated = store.end_turn("c", "Hello", "greet")

        assert updated.revision == 2
        assert store.get("c") == updated


def test_a_server_that_was_restarted_is_found_again(store: Any, server: Server) -> None:
    server.kill()
    server.start()

    assert store.get("c") is None
    assert store.get_or_create("c", "user", "agent").revision == 1


def test_a_call_continues_while_the_server_is_restarted(api: Any, server: Server) -> None:
    with api(server.url, timeout=10) as store:
        store.get_or_create("c", "user", "agent")
        server.kill()
        threading.Timer(0.3, server.start).start()

        found = store.get_or_create("c", "user", "agent")

        assert found.revision == 1


def test_a_dead_server_ends_a_call_at_its_deadline(store: Any, server: Server) -> None:
    server.kill()
    started = time.monotonic()

    with pytest.raises(StoreUnavailableError, match=f"127.0.0.1:{server.port}"):
        store.end_turn("c", "Hello", "greet")

    took = time.monotonic() - started
    server.start()
    assert took < LATEST
    assert store.get_or_create("c", "user", "agent").revision == 1


def test_a_lock_that_the_server_forgot_is_lost(store: Any, server: Server) -> None:
    def forget() -> None:
        with store.locked("c") as memory:
            server.kill()
            server.start()
            memory.end_turn("Hello", "greet")

    with pytest.raises(LockLostError, match="'c'"):
        forget()

    assert store.get("c") is None


def test_connections_that_were_cut_are_replaced(api: Any, server: Server) -> None:
    with Proxy(server.port) as proxy, api(proxy.url, timeout=TIMEOUT) as store:
        store.get_or_create("c", "user", "agent")
        proxy.cut()

        assert store.get("c") is not None


def test_nothing_is_opened_where_no_server_is(api: Any) -> None:
    port = free_port()
    started = time.monotonic()

    with pytest.raises(StoreUnavailableError, match=f"127.0.0.1:{port}") as raised:
        api(f"redis://:swordfish@127.0.0.1:{port}/0", timeout=5)

    assert time.monotonic() - started < 1 + TOLERANCE
    assert raised.value.__cause__ is not None


def test_a_server_that_is_silent_from_the_start_ends_opening_at_the_deadline(api: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        started = time.monotonic()

        with pytest.raises(StoreUnavailableError):
            api(f"redis://127.0.0.1:{listener.getsockname()[1]}/0", timeout=TIMEOUT)

        assert time.monotonic() - started < LATEST


def test_a_database_that_the_server_does_not_have_is_refused_at_once(
    api: Any, server: Server
) -> None:
    url = server.url.rpartition("/")[0]

    with pytest.raises(ConfigurationError, match="no database of that number"):
        api(f"{url}/99", timeout=5)


def test_a_wrong_password_is_refused_at_once_and_repeated_nowhere(
    api: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with Server("--requirepass", "open sesame") as server:
        url = f"redis://:swordfish@127.0.0.1:{server.port}/0"

        with pytest.raises(StoreUnavailableError) as raised:
            api(url, timeout=5)
        with api(f"redis://:open%20sesame@127.0.0.1:{server.port}/0", timeout=5) as store:
            text = f"{store!r} {vars(store)!r}"

    chain = [str(raised.value), repr(raised.value.__cause__), repr(raised.value.__context__)]
    assert "swordfish" not in " ".join([*chain, caplog.text])
    assert "sesame" not in text + caplog.text
