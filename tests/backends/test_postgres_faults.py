"""The PostgreSQL store when the network, the server or its process fails."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from typing import Any

import pytest

from jazzmine.core.message_store import MessageStore
from jazzmine.errors import (
    StoreUnavailableError,
)
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.backends.postgres_samples import behind, config, conversation, message, trace
from tests.faults.sizes import LENIENCE, TOLERANCE
from tests.servers import postgres
from tests.servers.proxy import Proxy

TIMEOUT = 1.0 + LENIENCE
"""The time of a call that should fail, in s, in which the calls before it have to succeed."""


def kill_backends(schema: str) -> int:
    """Terminate every other session that uses the schema, as an administrator can."""
    with postgres.connect(postgres.dsn()) as admin:
        found = admin.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE query LIKE %s AND pid <> pg_backend_pid()",
            [f"%{schema}%"],
        ).fetchone()
    return int(found[0]) if found else 0


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


# Lost connections


async def test_calls_survive_killed_sessions(schema: str) -> None:
    async with await MessageStore.initialize(config(schema, pool_min=5)) as store:
        await asyncio.gather(*(store.store_conversation(conversation()) for _ in range(5)))
        assert kill_backends(schema) >= 1
        await asyncio.gather(*(store.store_message(message(f"m{n}")) for n in range(20)))
        assert len(await store.get_messages_by_conversation_id("c1")) == 20


def test_sync_calls_survive_killed_sessions(schema: str) -> None:
    with SyncMessageStore.initialize(config(schema)) as store:
        store.store_conversation(conversation())
        assert kill_backends(schema) >= 1
        store.store_message(message())
        assert store.get_message_by_id("m1") == message()


async def test_a_write_whose_reply_was_lost_is_repeated_and_not_doubled(
    proxy: Proxy, schema: str
) -> None:
    async with await MessageStore.initialize(behind(proxy, schema, pool_min=1)) as store:
        await store.store_conversation(conversation())
        proxy.lose_reply(1)
        await store.store_messages([message("m1"), message("m2")])
        assert proxy.lost == 1
        assert await store.get_messages_by_conversation_id("c1") == [message("m1"), message("m2")]


async def test_a_restarted_server_is_survived() -> None:
    with postgres.own() as server:
        options: dict[str, object] = {"storage": "postgres", "dsn": server.dsn}
        async with await MessageStore.initialize(options) as store:
            await store.store_conversation(conversation())
            server.stop(signal.SIGINT)
            restart = threading.Timer(1.5, server.start)
            restart.start()
            started = time.monotonic()
            await asyncio.gather(*(store.store_message(message(f"m{n}")) for n in range(20)))
            assert 1.0 < time.monotonic() - started < 15 + TOLERANCE
            assert len(await store.get_messages_by_conversation_id("c1")) == 20
            restart.join()


def test_a_server_that_is_gone_is_reported_at_the_deadline() -> None:
    with postgres.own() as server:
        options = {"storage": "postgres", "dsn": server.dsn, "timeout": TIMEOUT}
        with SyncMessageStore.initialize(options) as store:
            server.stop(signal.SIGQUIT)
            started = time.monotonic()
            with pytest.raises(StoreUnavailableError, match=f"127.0.0.1:{server.port}") as raised:
                store.ping()
            assert TIMEOUT - 0.5 < time.monotonic() - started < TIMEOUT + 0.5 + TOLERANCE
            assert postgres.PASSWORD not in f"{raised.value!r} {raised.value.__cause__!r}"


# Silence


async def test_a_call_to_a_silent_server_ends_at_the_deadline(proxy: Proxy, schema: str) -> None:
    options = behind(proxy, schema, timeout=TIMEOUT, pool_min=1, pool_max=2)
    async with await MessageStore.initialize(options) as store:
        await store.store_conversation(conversation())
        proxy.swallow_requests = True
        started = time.monotonic()
        calls = [store.store_message(message(f"m{n}")) for n in range(6)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert time.monotonic() - started < TIMEOUT + 0.5 + TOLERANCE
        assert {type(outcome) for outcome in outcomes} == {StoreUnavailableError}
        proxy.swallow_requests = False
        proxy.cut()
        await store.store_message(message("m9"))
        assert await store.get_message_by_id("m9") == message("m9")


def test_a_sync_call_gives_a_silent_server_up_at_the_deadline(proxy: Proxy, schema: str) -> None:
    options = behind(proxy, schema, timeout=TIMEOUT, pool_min=1, pool_max=2)
    with SyncMessageStore.initialize(options) as store:
        proxy.swallow_replies = True
        started = time.monotonic()
        with pytest.raises(StoreUnavailableError, match=f"within {TIMEOUT:g} s"):
            store.ping()
        assert TIMEOUT - 0.1 < time.monotonic() - started < TIMEOUT + 0.5 + TOLERANCE
        proxy.swallow_replies = False
        store.ping()


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


# Cancellation, loops, processes


async def test_cancelling_a_call_at_any_moment_leaves_the_pool_full(schema: str) -> None:
    async with await MessageStore.initialize(config(schema, pool_min=2, pool_max=2)) as store:
        await store.store_conversation(conversation())
        for steps in range(60):
            tasks = [asyncio.ensure_future(store.store_message(message())) for _ in range(3)]
            for _ in range(steps % 30):
                await asyncio.sleep(0 if steps < 30 else 0.0002)
            tasks[steps % 3].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait_for(
            asyncio.gather(*(store.get_message_by_id("m1") for _ in range(10))), 5
        )


async def test_a_cancelled_call_ends_at_once_though_the_server_is_silent(
    proxy: Proxy, schema: str
) -> None:
    options = behind(proxy, schema, pool_min=1, pool_max=1, timeout=5)
    async with await MessageStore.initialize(options) as store:
        proxy.swallow_requests = True
        call = asyncio.ensure_future(store.ping())
        await asyncio.sleep(0.2)
        started = time.monotonic()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert time.monotonic() - started < 0.2 + TOLERANCE
        proxy.swallow_requests = False
        proxy.cut()
        await store.ping()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_its_own_connections(schema: str) -> None:
    with SyncMessageStore.initialize(config(schema)) as store:
        store.store_conversation(conversation())
        child = os.fork()
        if child == 0:
            status = 1
            try:
                store.store_messages([message(f"m{n}") for n in range(10)])
                store.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(store.get_messages_by_conversation_id("c1")) == 10
        store.ping()
