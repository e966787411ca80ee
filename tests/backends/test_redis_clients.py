"""Clients of Redis that a user brings, and what is sent to the server meanwhile."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import fakeredis
import pytest
import redis
import redis.asyncio
from redis.crc import key_slot

from jazzmine.core import working_memory as core
from jazzmine.errors import ConfigurationError
from jazzmine.sync import working_memory as sync
from tests.behaviour.apis import APIS, Api
from tests.faults.sizes import TOLERANCE
from tests.servers.proxy import Proxy
from tests.servers.redis import Cluster, running


async def test_an_async_store_works_on_fakeredis() -> None:
    server = fakeredis.FakeServer()
    async with (
        core.RedisWorkingMemoryStore(fakeredis.FakeAsyncRedis(server=server)) as one,
        core.RedisWorkingMemoryStore(fakeredis.FakeAsyncRedis(server=server)) as other,
    ):
        await one.get_or_create("c", "user", "agent")
        updates = [store.end_turn("c", "Hello", "greet") for store in (one, other) * 3]
        await asyncio.gather(*updates)

        stored = await other.get("c")
        assert stored is not None
        assert stored.revision == 7
        assert await one.active_count() == 1
        assert await one.delete("c") is True


@pytest.mark.parametrize("decode", [True, False])
def test_the_encoding_of_a_client_does_not_affect_stored_text(url: str, decode: bool) -> None:
    with (
        redis.Redis.from_url(url, encoding="latin-1", decode_responses=decode) as client,
        sync.RedisWorkingMemoryStore(client) as store,
    ):
        store.get_or_create("né \N{SNOWMAN}", "né \N{SNOWMAN}", "agent")
        updated = store.end_turn("né \N{SNOWMAN}", "\N{SNOWMAN}", "greet")

        assert updated == store.get("né \N{SNOWMAN}")
        assert store.active_count() == 1
        assert store.erase_user("né \N{SNOWMAN}") == 1
        assert store.get("né \N{SNOWMAN}") is None


async def test_calls_wait_for_a_connection_where_all_are_in_use(url: str) -> None:
    async with await core.WorkingMemoryStore.initialize(f"{url}?max_connections=2") as store:
        names = [f"c{number}" for number in range(50)]
        found = await asyncio.gather(*(store.get_or_create(name, "u", "agent") for name in names))
        assert [memory.conversation_id for memory in found] == names


async def test_the_url_of_a_node_opens_its_cluster_in_an_async_store() -> None:
    cluster = running(Cluster)
    async with await core.WorkingMemoryStore.initialize(cluster.primaries[1].url) as store:
        for number in range(20):
            await store.get_or_create(f"c{number}", "user", "agent")
            assert (await store.end_turn(f"c{number}", "Hello", "greet")).revision == 2
        assert await store.active_count() == 20
        for number in range(20):
            assert await store.delete(f"c{number}") is True


def test_a_forked_process_uses_the_cluster_of_the_url() -> None:
    names = [f"c{number}" for number in range(10)]
    with sync.WorkingMemoryStore.initialize(running(Cluster).primaries[1].url) as store:
        for name in names:
            store.get_or_create(name, "user", "agent")
        child = os.fork()
        if not child:
            status = 1
            try:
                for name in names:
                    store.end_turn(name, "Hello", "greet")
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)

        assert os.waitstatus_to_exitcode(status) == 0
        assert {store.end_turn(name, "Hello", "greet").revision for name in names} == {3}
        assert store.erase_user("user") == len(names)


def test_a_client_of_one_node_of_a_cluster_is_refused_at_once() -> None:
    cluster = running(Cluster)
    with (
        redis.Redis(port=cluster.primaries[0].port) as client,
        sync.RedisWorkingMemoryStore(client) as store,
    ):
        names = map(str, range(100))
        elsewhere = next(name for name in names if key_slot(f"wm:{{{name}}}".encode()) > 10_000)
        started = time.monotonic()

        with pytest.raises(ConfigurationError, match="RedisCluster"):
            store.get(elsewhere)

        assert time.monotonic() - started < 5 + TOLERANCE


# Round trips and renewals


@pytest.fixture
def proxy(client: Any) -> Iterator[Proxy]:
    settings = client.connection_pool.connection_kwargs
    with Proxy(settings["port"], settings["host"]) as opened:
        yield opened


async def test_waiting_tasks_of_one_process_ask_the_server_nothing(proxy: Proxy) -> None:
    store = await core.WorkingMemoryStore.initialize(proxy.url)
    await store.get_or_create("c", "user", "agent")
    async with store.locked("c"):
        before = proxy.round_trips
        waiting = [asyncio.create_task(store.end_turn("c", "Hello", "greet")) for _ in range(10)]
        await asyncio.sleep(0.3)
        while_waiting = proxy.round_trips - before
    await asyncio.gather(*waiting)
    await store.close()

    assert while_waiting == 0
    assert proxy.round_trips - before == 11  # the save of the block, and one for each update


@pytest.mark.parametrize("api", APIS, ids=str)
async def test_a_renewal_that_failed_is_tried_again_while_the_lock_lasts(
    proxy: Proxy, client: Any, api: Api
) -> None:
    """The server is silent for half of the lock's time, and the first renewal falls into it."""
    config = {"storage": "redis", "url": proxy.url, "lease_seconds": 1.5}
    for after, is_silent in ((0.3, True), (1.0, False)):
        threading.Timer(after, setattr, [proxy, "swallow_replies", is_silent]).start()
    async with await api.WorkingMemoryStore.initialize(config) as store:
        await store.get_or_create("c", "user", "agent")
        async with store.locked("c") as memory:
            await api.pause(2.5)
            is_locked = client.exists("wm_lock:{c}")
            memory.end_turn("Hello", "greet")

    assert is_locked
    assert client.hget("wm:{c}", "data").count('"Hello"') == 1


def test_a_client_of_the_other_api_is_refused(url: str) -> None:
    with pytest.raises(TypeError, match=r"redis\.asyncio"):
        core.RedisWorkingMemoryStore(redis.Redis.from_url(url))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"redis\.asyncio"):
        sync.RedisWorkingMemoryStore(redis.asyncio.Redis.from_url(url))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"initialize\(\) takes a URL"):
        sync.RedisWorkingMemoryStore(url)  # type: ignore[arg-type]


async def test_closing_the_store_leaves_the_users_client_open(url: str) -> None:
    async with redis.asyncio.Redis.from_url(url) as mine:
        store = core.RedisWorkingMemoryStore(mine, 60, 2)
        await store.get_or_create("c", "user", "agent")

        await store.close()

        assert await mine.ping()
        assert 0 < await mine.ttl("wm:{c}") <= 60
