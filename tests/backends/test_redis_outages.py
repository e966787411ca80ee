"""A Redis server that is killed, restarted, silent or absent: calls end at their deadline."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from jazzmine.errors import ConfigurationError, StoreUnavailableError
from tests.backends.redis_apis import APIS
from tests.faults.sizes import TOLERANCE
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
