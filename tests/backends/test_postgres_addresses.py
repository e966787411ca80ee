"""Addresses and options of PostgreSQL stores: errors explain them, and show no secret."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from jazzmine.errors import (
    StoreUnavailableError,
)
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.backends.postgres_apis import APIS, opened
from tests.faults.sizes import TOLERANCE
from tests.servers import postgres


def test_a_server_that_does_not_run_is_named_in_one_line() -> None:
    with pytest.raises(StoreUnavailableError) as raised:
        SyncMessageStore.initialize("postgresql://127.0.0.1:1/db")
    assert str(raised.value).startswith("PostgreSQL at 127.0.0.1:1: connection failed: ")
    assert "Connection refused; Is the server running" in str(raised.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"password": "wr0ng-secret"}, "password authentication failed"),
        ({"dbname": "no_such_db"}, "does not exist"),
        ({"host": "no-such-host.invalid"}, "no-such-host.invalid"),
        ({"port": "1"}, ":1"),
    ],
)
def test_a_wrong_address_raises_within_a_second_and_keeps_the_secret(
    change: dict[str, str], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    dsn = postgres.changed(postgres.dsn(), **change)
    started = time.monotonic()
    with pytest.raises(StoreUnavailableError) as raised:
        SyncMessageStore.initialize({"storage": "postgres", "dsn": dsn})
    assert time.monotonic() - started < 1.5 + TOLERANCE
    assert says in str(raised.value)
    shown = f"{raised.value!r} {raised.value.__cause__!r} {caplog.text}"
    assert "wr0ng-secret" not in shown
    assert postgres.PASSWORD not in shown


def test_without_the_driver_the_extra_to_install_is_named() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from jazzmine.sync import MessageStore, PostgresMessageStore\n"
        "try: MessageStore.initialize('postgresql://h/db')\n"
        "except ImportError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'jazzmine[postgres]>=2.0'" in said.stdout, said.stderr


# Hosts that do not answer

SILENT_NAME = "silent.example"


@pytest.fixture
def is_looked_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A host whose name server does not answer; the event is set when a look-up has ended."""
    look_up, is_over, has_ended = socket.getaddrinfo, threading.Event(), threading.Event()

    def getaddrinfo(host: Any, *options: Any, **named: Any) -> Any:
        if host == SILENT_NAME:
            is_over.wait(60)
            has_ended.set()
            raise socket.gaierror("no answer")
        return look_up(host, *options, **named)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield has_ended
    is_over.set()


@pytest.mark.parametrize("api", APIS)
async def test_a_name_server_that_does_not_answer_is_not_waited_for_after_the_deadline(
    is_looked_up: threading.Event, api: str
) -> None:
    dsn = f"postgresql://{SILENT_NAME}/db"
    with pytest.raises(StoreUnavailableError, match=SILENT_NAME):
        async with opened(api, {"storage": "postgres", "dsn": dsn, "timeout": 1.0}):
            pass
    assert not is_looked_up.is_set()
