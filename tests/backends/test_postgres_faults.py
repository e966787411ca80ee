"""The PostgreSQL store when the network, the server or its process fails."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from jazzmine.core.message_store import MessageStore
from jazzmine.errors import RecordTooLargeError, StoreUnavailableError
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.backends.postgres_samples import behind, config, conversation, message, trace
from tests.faults.sizes import LENIENCE, TOLERANCE
from tests.servers import postgres
from tests.servers.proxy import Proxy

TIMEOUT = 1.0 + LENIENCE
"""The time of a call that should fail, in s, in which the calls before it have to succeed."""


# Round trips


async def test_every_call_is_one_round_trip(proxy: Proxy, schema: str) -> None:
    options = behind(proxy, schema, pool_min=1, pool_max=1)
    async with await MessageStore.initialize(options) as store:
        calls: dict[str, Any] = {
            "store_conversation": lambda: store.store_conversation(conversation()),
            "store_message": lambda: store.store_message(message()),
            "store_messages": lambda: store.store_messages([message(f"m{n}") for n in range(20)]),
            "store_turn_trace": lambda: store.store_turn_trace(trace()),
            "store_turn": lambda: store.store_turn(
                conversation=conversation(), messages=[message(), message("m2")], trace=trace()
            ),
            "get_conversation_by_id": lambda: store.get_conversation_by_id("c1"),
            "by_user": lambda: store.get_conversations_by_user_id("u", after="c1"),
            "get_message_by_id": lambda: store.get_message_by_id("m1"),
            "get_messages_by_ids": lambda: store.get_messages_by_ids(["m1", "m2"]),
            "of_conversation": lambda: store.get_messages_by_conversation_id("c1", after="m1"),
            "get_immediate_context": lambda: store.get_immediate_context("c1", 20),
            "flag_message": lambda: store.flag_message("m2"),
            "get_turn_trace_by_id": lambda: store.get_turn_trace_by_id("trace of m1"),
            "by_agent": lambda: store.get_turn_traces_by_agent_id("a"),
            "delete_message": lambda: store.delete_message("m2"),
            "delete_conversation": lambda: store.delete_conversation("c1"),
            "ping": store.ping,
        }
        for call in calls.values():
            await call()  # prepares its statement
        trips = {}
        for name, call in calls.items():
            before = proxy.round_trips
            await call()
            trips[name] = proxy.round_trips - before
    assert trips == dict.fromkeys(calls, 1)


# Silence


@pytest.mark.parametrize("timeout", [0.5, 1.0])
def test_opening_a_store_at_a_silent_server_keeps_the_deadline(
    proxy: Proxy, schema: str, timeout: float
) -> None:
    proxy.swallow_replies = True
    started = time.monotonic()
    with pytest.raises(StoreUnavailableError):
        SyncMessageStore.initialize(behind(proxy, schema, timeout=timeout))
    assert time.monotonic() - started < timeout + 0.5 + TOLERANCE


async def test_a_call_without_a_free_connection_ends_at_the_deadline(
    schema: str,
) -> None:
    options = config(schema, timeout=TIMEOUT, pool_min=1, pool_max=1)
    async with await MessageStore.initialize(options) as store:
        await store.store_conversation(conversation())
        with postgres.connect(postgres.dsn()) as other, other.transaction():
            other.execute(f'SELECT FROM "{schema}".conversations FOR UPDATE'.encode())
            started = time.monotonic()
            calls = [store.store_conversation(conversation()), store.ping()]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert time.monotonic() - started < TIMEOUT + 0.5 + TOLERANCE
            assert isinstance(outcomes[0], StoreUnavailableError)
            # The connection of the first call may become free just before the second's deadline.
            assert outcomes[1] is None or isinstance(outcomes[1], StoreUnavailableError)
        await store.ping()


# Addresses


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
    assert not caplog.text  # it is not tried again
    shown = f"{raised.value!r} {raised.value.__cause__!r}"
    assert "wr0ng-secret" not in shown
    assert postgres.PASSWORD not in shown


# Concurrent calls, and what is too large


async def test_messages_stored_in_opposite_orders_at_once_are_stored(schema: str) -> None:
    # The server ends one of two that wait for each other, and its call is repeated.
    async with await MessageStore.initialize(config(schema, pool_min=4)) as store:
        await store.store_conversation(conversation())
        given = [message(f"m{n}") for n in range(200)]
        await store.store_messages(given)
        calls = [store.store_messages(given[:: 1 - 2 * (n % 2)]) for n in range(6)]
        await asyncio.gather(*calls)
        assert await store.get_messages_by_conversation_id("c1") == given


async def test_an_id_that_no_index_holds_is_too_large(schema: str) -> None:
    long = "".join(chr(0x4E00 + (n * n * 7919) % 20_000) for n in range(20_000))
    async with await MessageStore.initialize(config(schema)) as store:
        with pytest.raises(RecordTooLargeError):
            await store.store_conversation(conversation(long))
        assert await store.get_conversation_by_id(long) is None
