"""Connections that became silent, and servers that do not answer or are read-only."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from jazzmine._async.clients.postgres import client
from jazzmine.core.long_term_memory import MemoryItem
from jazzmine.errors import StoreUnavailableError
from tests.backends.postgres_apis import APIS, ITEMS, network, opened
from tests.backends.postgres_samples import config, conversation, message
from tests.faults.sizes import LENIENCE, TOLERANCE
from tests.servers import postgres
from tests.servers.proxy import Proxy


@contextmanager
def black_hole() -> Iterator[int]:
    """A port that never answers, because its queue of new connections is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting = []
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(address)
            waiting.append(client)
        try:
            yield address[1]
        finally:
            for client in waiting:
                client.close()


async def seconds(call: Awaitable[object]) -> float:
    """Return the duration of a call in s, even if it fails."""
    started = time.monotonic()
    await asyncio.gather(call, return_exceptions=True)
    return time.monotonic() - started


# Silence


@pytest.mark.parametrize("api", APIS)
async def test_a_write_that_is_sent_once_is_not_lost_with_idle_connections(
    api: str, schema: str, admin: psycopg.Connection[Any]
) -> None:
    # As by idle_session_timeout, or a restart of the server.
    dsn = postgres.changed(postgres.dsn(), application_name=f"idle-{schema}")
    options = config(schema, dsn=dsn)
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
    async with opened(api, options) as store, opened(api, options, ITEMS) as items:
        await store.store_conversation(conversation())
        await store.append_messages("c1", [message("m1")])
        item = await items.put(MemoryItem(namespace=("n",), key="k", value={}))
        admin.execute(end, [f"idle-{schema}"])
        assert await store.pop_message("c1") == message("m1")
        await items.put(item, expected_revision=item.revision)


async def test_a_server_that_is_away_is_tried_again_and_fills_the_log_only_once(
    schema: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[AsyncConnectionPool] = []

    def new_pool(*args: Any, **options: Any) -> AsyncConnectionPool:
        pools.append(AsyncConnectionPool(*args, **options))
        return pools[0]

    monkeypatch.setattr(client, "DriverPool", new_pool)
    with network("direct", schema, pool_min=10, timeout=1.0 + LENIENCE) as (proxy, options):
        async with opened("async", options) as store:
            await pools[0].wait(60)  # one that is made later would be the end of an outage
            proxy.target = 1  # nothing listens there
            proxy.cut()
            with pytest.raises(StoreUnavailableError):
                await store.ping()
            await asyncio.sleep(1.5)
            assert caplog.text.count("tried again until it can be reached") == 1
            assert "error connecting" not in caplog.text
            proxy.target = postgres.port_of(postgres.dsn())
            deadline = time.monotonic() + 60
            while not proxy.open:  # without any call
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
            await store.ping()


async def test_an_opening_that_fails_is_not_tried_again_and_does_not_say_so(
    schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(StoreUnavailableError):
        async with opened("async", config(schema, dsn="postgresql://127.0.0.1:1/none")):
            pass
    assert caplog.text == ""


# Several hosts


@pytest.mark.parametrize(
    ("api", "attributes"), [("async", {}), ("sync", {"target_session_attrs": "read-write"})]
)
async def test_a_host_that_does_not_answer_leaves_time_for_the_others(
    api: str, attributes: dict[str, str], schema: str
) -> None:
    timeout = 6.0  # psycopg waits 2 s at least for each host
    with black_hole() as dead, Proxy(postgres.port_of(postgres.dsn())) as proxy:
        dsn = postgres.changed(
            postgres.dsn(), host="127.0.0.1,127.0.0.1", port=f"{dead},{proxy.port}", **attributes
        )
        started = time.monotonic()
        async with opened(api, config(schema, dsn=dsn, timeout=timeout)) as store:
            assert time.monotonic() - started < timeout
            await store.store_conversation(conversation())
            proxy.cut()
            assert await seconds(store.store_message(message())) < timeout
            assert await store.get_message_by_id("m1") == message()


# Servers that change their role


@contextmanager
def read_only(server: postgres.Server) -> Iterator[None]:
    """Let a server take no writes for a block."""

    def change(setting: LiteralString) -> None:
        with postgres.connect(server.dsn) as admin:
            admin.execute(f"ALTER SYSTEM {setting}")
            admin.execute("SELECT pg_reload_conf()")
        time.sleep(0.2)

    change("SET default_transaction_read_only = on")
    try:
        yield
    finally:
        change("RESET default_transaction_read_only")


async def test_writes_go_elsewhere_when_a_server_becomes_read_only(schema: str) -> None:
    async with opened("async", config(schema)):
        pass  # makes the tables
    with postgres.own() as server, Proxy(server.port) as proxy:
        dsn = postgres.changed(server.dsn, port=proxy.port)
        options = config(schema, dsn=dsn, pool_min=3, pool_max=3, timeout=10.0)
        async with opened("async", options) as store:
            await store.store_conversation(conversation())
            with read_only(server):
                assert await store.get_conversation_by_id("c1") == conversation()
                proxy.target = postgres.port_of(postgres.dsn())
                took = await seconds(store.store_conversation(conversation("c2")))
                assert took < 5.0 + TOLERANCE
                calls = (store.store_conversation(conversation(f"c{n}")) for n in range(3, 20))
                await asyncio.gather(*calls)
                assert await store.get_conversation_by_id("c19") == conversation("c19")
