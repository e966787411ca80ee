"""Addresses and options of PostgreSQL stores: errors explain them, and show no secret."""

from __future__ import annotations

import time

import pytest

from jazzmine.errors import StoreUnavailableError
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.faults.sizes import TOLERANCE
from tests.servers import postgres


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
