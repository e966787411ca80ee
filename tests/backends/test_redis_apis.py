"""Defects that only one API can have: cancellation, event loops, threads, forks, clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

from jazzmine.core import working_memory as core
from jazzmine.sync import working_memory as sync
from tests.behaviour.apis import APIS, Api
from tests.servers.proxy import Proxy


@pytest.fixture
def proxy(client: Any) -> Iterator[Proxy]:
    settings = client.connection_pool.connection_kwargs
    with Proxy(settings["port"], settings["host"]) as opened:
        yield opened


@pytest.fixture
async def store(proxy: Proxy) -> AsyncIterator[core.WorkingMemoryStore]:
    async with await core.WorkingMemoryStore.initialize(proxy.url) as opened:
        await opened.get_or_create("c", "user", "agent")
        yield opened


async def in_an_update(store: core.WorkingMemoryStore) -> None:
    await store.end_turn("c", "Hello", "greet")


async def test_waiting_tasks_of_one_process_ask_the_server_nothing(
    store: core.WorkingMemoryStore, proxy: Proxy
) -> None:
    async with store.locked("c"):
        before = proxy.round_trips
        waiting = [asyncio.create_task(in_an_update(store)) for _ in range(10)]
        await asyncio.sleep(0.3)
        while_waiting = proxy.round_trips - before
    await asyncio.gather(*waiting)

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
