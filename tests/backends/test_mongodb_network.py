"""The MongoDB store with silent connections, and dead hosts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from jazzmine import StoreUnavailableError
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation, message
from tests.faults.sizes import TOLERANCE
from tests.servers import mongodb
from tests.servers.proxy import Proxy

Config = dict[str, Any]
TIMEOUT = 2.0


@pytest.fixture(scope="module")
def server() -> Iterator[mongodb.Server]:
    with mongodb.Server() as started:
        yield started


@pytest.fixture
def proxy(server: mongodb.Server) -> Iterator[Proxy]:
    with Proxy(server.port) as between:
        yield between


def config_of(*ports: int) -> Config:
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    direct = "?directConnection=true" if len(ports) == 1 else ""
    name = f"jazzmine_test_{uuid4().hex}"
    uri = f"mongodb://{hosts}/{direct}"
    return {"storage": "mongodb", "uri": uri, "db": name, "timeout": TIMEOUT}


def test_a_silent_host_does_not_keep_the_store_from_another(server: mongodb.Server) -> None:
    with Proxy(server.port) as silent:
        silent.swallow_requests = True
        started = time.monotonic()

        with MessageStore.initialize(config_of(silent.port, server.port)) as store:
            store.store_conversation(conversation())

        assert time.monotonic() - started < TIMEOUT + 0.5 + TOLERANCE


def test_the_error_says_why_no_server_was_reached() -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        MessageStore.initialize({**config_of(1, 2), "timeout": 0.5})

    reasons = r"127\.0\.0\.1:[12]: \S*.*Connection refused"
    assert re.fullmatch(
        rf"MongoDB at 127\.0\.0\.1:1, 127\.0\.0\.1:2 cannot be reached: {reasons},{reasons};"
        r" `jazzmine doctor` says more",
        str(caught.value),
    )


SLOWLY: dict[str, Callable[[Any], Any]] = {
    "a message": lambda store: store.get_message_by_id("large"),
    "a list": lambda store: store.get_messages_by_conversation_id("c1"),
    "a window": lambda store: store.get_context_window("c1", max_tokens=10**6),
    "a pop": lambda store: store.pop_message("c1"),
}


@pytest.mark.parametrize("call", SLOWLY.values(), ids=SLOWLY)
def test_a_reply_that_arrives_slowly_ends_at_the_deadline(
    proxy: Proxy, call: Callable[[Any], Any]
) -> None:
    with MessageStore.initialize(config_of(proxy.port)) as store:
        store.store_conversation(conversation())
        store.store_message(message("large", original_content="x" * 3_000_000))
        proxy.drip = 0.05
        started = time.monotonic()

        with pytest.raises(StoreUnavailableError):
            call(store)

        assert time.monotonic() - started < TIMEOUT + 0.5 + TOLERANCE
        proxy.drip = 0.0
        proxy.cut()
        assert store.get_message_by_id("large") is not None
