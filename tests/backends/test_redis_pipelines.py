"""Updates of many conversations at once share connections and pipelines, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

from jazzmine import NotFoundError, StoreUnavailableError
from jazzmine._compat.async_redis import time_limit
from jazzmine.core import working_memory as core
from jazzmine.records.working_memory import WorkingMemory
from tests.servers.proxy import Proxy

CIDS = [f"c{number}" for number in range(50)]


@pytest.fixture
def proxy(client: Any) -> Iterator[Proxy]:
    settings = client.connection_pool.connection_kwargs
    with Proxy(settings["port"], settings["host"]) as opened:
        yield opened


@pytest.fixture
async def store(proxy: Proxy) -> AsyncIterator[core.WorkingMemoryStore]:
    config = {"storage": "redis", "url": proxy.url, "timeout": 5}
    async with await core.WorkingMemoryStore.initialize(config) as opened:
        for cid in CIDS:
            await opened.get_or_create(cid, "user", "agent")
        yield opened


async def update(store: core.WorkingMemoryStore, *cids: str) -> list[WorkingMemory | BaseException]:
    """Update conversations at once, and return the result or the error of each."""
    calls = (store.end_turn(cid, f"Hello, {cid}", "greet") for cid in cids)
    return await asyncio.gather(*calls, return_exceptions=True)


def responses(results: list[WorkingMemory | BaseException]) -> list[Any]:
    return [
        each.last_agent_response if isinstance(each, WorkingMemory) else each for each in results
    ]


ALL_GREETED = [f"Hello, {cid}" for cid in CIDS]


async def test_many_updates_at_once_need_few_round_trips_and_connections(
    store: core.WorkingMemoryStore, proxy: Proxy
) -> None:
    round_trips, connections = proxy.round_trips, proxy.connections
    proxy.delay = 0.05

    results = await update(store, *CIDS)

    assert responses(results) == ALL_GREETED
    assert proxy.round_trips - round_trips < len(CIDS)
    assert proxy.connections - connections < 10


async def test_an_update_that_fails_leaves_those_that_were_sent_with_it(
    store: core.WorkingMemoryStore, client: Any
) -> None:
    client.set("wm_line:{c30}", "not a list")
    client.hset("wm:{c31}", "data", "no JSON")

    results = await update(store, *CIDS)

    failed = {
        cid: each
        for cid, each in zip(CIDS, results, strict=True)
        if not isinstance(each, WorkingMemory)
    }
    assert {cid: type(error) for cid, error in failed.items()} == {
        "c30": redis.ResponseError,
        "c31": NotFoundError,
    }


async def test_scripts_that_the_server_forgot_are_sent_again(
    store: core.WorkingMemoryStore, client: Any
) -> None:
    client.script_flush()

    results = await update(store, *CIDS)

    assert responses(results) == ALL_GREETED


async def test_a_cancelled_update_leaves_those_that_were_sent_with_it(
    store: core.WorkingMemoryStore, proxy: Proxy, client: Any
) -> None:
    proxy.delay = 0.1
    cancelled = [asyncio.create_task(store.end_turn(cid, "no", "no")) for cid in CIDS[::2]]
    others = asyncio.create_task(update(store, *CIDS[1::2]))
    await asyncio.sleep(0.15)
    for task in cancelled:
        task.cancel()
    ended = await asyncio.gather(*cancelled, return_exceptions=True)
    results = await others
    proxy.delay = 0.0

    assert responses(results) == ALL_GREETED[1::2]
    assert any(isinstance(each, asyncio.CancelledError) for each in ended)
    assert responses(await update(store, *CIDS)) == ALL_GREETED
    assert client.keys("wm_lock:*") == []


@pytest.mark.parametrize("number", range(1, 9))
async def test_whichever_reply_is_lost_each_update_is_made_once(
    store: core.WorkingMemoryStore, proxy: Proxy, number: int
) -> None:
    proxy.lose_reply(number)

    results = await update(store, *CIDS)

    assert responses(results) == ALL_GREETED
    assert [each.revision for each in results if isinstance(each, WorkingMemory)] == [2] * len(CIDS)
    assert proxy.lost == 1


async def test_a_silent_server_ends_all_updates_at_their_deadline_and_no_later_one(
    proxy: Proxy,
) -> None:
    config = {"storage": "redis", "url": proxy.url, "timeout": 1.0}
    async with await core.WorkingMemoryStore.initialize(config) as store:
        for cid in CIDS:
            await store.get_or_create(cid, "user", "agent")
        proxy.swallow_replies = True
        async with time_limit(3):
            results = await update(store, *CIDS)
        proxy.swallow_replies = False
        proxy.cut()

        assert {type(each) for each in results} == {StoreUnavailableError}
        assert responses(await update(store, *CIDS)) == ALL_GREETED


@pytest.mark.parametrize("settings", [{"max_connections": 2}, {"decode_responses": True}])
async def test_a_users_client_keeps_its_settings(url: str, settings: dict[str, Any]) -> None:
    async with redis.asyncio.Redis.from_url(url, **settings) as mine:
        store = core.RedisWorkingMemoryStore(mine, 60, 10)
        for cid in CIDS:
            await store.get_or_create(cid, "user", "agent")

        results = await update(store, *CIDS)
        await store.close()

    assert responses(results) == ALL_GREETED
