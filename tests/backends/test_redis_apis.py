"""Defects that only one API can have: cancellation, event loops, threads, forks, clients."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

from jazzmine.core import working_memory as core
from jazzmine.errors import LockLostError, LockTimeoutError
from jazzmine.sync import working_memory as sync
from tests.backends.redis_apis import open_sync
from tests.backends.redis_topologies import TOPOLOGIES, topology
from tests.faults.sizes import TOLERANCE
from tests.servers.proxy import Proxy

LOCK = "wm_lock:{c}"


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


async def in_a_block(store: core.WorkingMemoryStore) -> None:
    async with store.locked("c"):
        await asyncio.sleep(10)


async def in_an_update(store: core.WorkingMemoryStore) -> None:
    await store.end_turn("c", "Hello", "greet")


@pytest.mark.parametrize("work", [in_a_block, in_an_update])
@pytest.mark.parametrize("after", [0.0, 0.025, 0.15, 0.25, 0.35, 0.45])
async def test_a_call_that_is_cancelled_holds_no_lock_100_ms_later(
    store: core.WorkingMemoryStore,
    proxy: Proxy,
    client: Any,
    work: Callable[[core.WorkingMemoryStore], Coroutine[Any, Any, None]],
    after: float,
) -> None:
    proxy.delay = 0.2
    task = asyncio.create_task(work(store))
    await asyncio.sleep(after)

    task.cancel()
    for _ in range(100):  # much faster than a reply
        await asyncio.sleep(0)

    assert task.done()  # it waited for no reply
    await asyncio.gather(task, return_exceptions=True)
    proxy.delay = 0
    await asyncio.sleep(0.1)
    until = time.monotonic() + TOLERANCE
    while client.get(LOCK) is not None:
        assert time.monotonic() < until
        await asyncio.sleep(0.01)
    assert (await store.end_turn("c", "Hello", "greet")).revision in (2, 3)


async def test_a_call_with_a_time_limit_of_its_own_ends_then_though_the_server_is_silent(
    store: core.WorkingMemoryStore, proxy: Proxy
) -> None:
    proxy.swallow_requests = True
    started = time.monotonic()

    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(store.end_turn("c", "Hello", "greet"), 0.2)

    assert time.monotonic() - started < 0.3 + TOLERANCE
    proxy.swallow_requests = False
    proxy.cut()
    assert (await store.end_turn("c", "Hello", "greet")).revision == 2


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


def test_a_forked_child_connects_by_itself_and_leaves_the_parents_connection(
    url: str, client: Any
) -> None:
    with sync.WorkingMemoryStore.initialize(url) as store:
        store.get_or_create("c", "user", "agent")
        known = {each["id"] for each in client.client_list()}
        with store.locked("c"):
            child = os.fork()
            if child == 0:
                mine = store.get("c")
                ids = {each["id"] for each in redis.Redis.from_url(url).client_list()}
                os._exit(0 if mine is not None and len(ids - known) >= 2 else 1)
            _, status = os.waitpid(child, 0)

        assert status == 0
        assert store.end_turn("c", "Hello", "greet").revision == 3


@pytest.mark.parametrize("name", TOPOLOGIES)
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("error", [None, ValueError("the child's")])
def test_a_child_that_was_forked_in_a_block_cannot_save_and_its_parent_can(
    name: str, used: bool, error: Exception | None
) -> None:
    with topology(name, open_sync) as servers:
        store = servers.open()
        store.get_or_create("c", "user", "agent")
        block = store.locked("c")
        memory = block.__enter__()
        memory.end_turn("the parent's", "greet")

        child = os.fork()
        if child == 0:
            if used:
                store.get("another")
            memory.end_turn("the child's", "greet")
            os._exit(0 if refused(block, error) else 1)
        _, status = os.waitpid(child, 0)
        assert servers.keys(LOCK) == [LOCK.encode()]
        block.__exit__(None, None, None)

        stored = store.get("c")
        assert status == 0
        assert stored is not None
        assert (stored.last_agent_response, stored.revision) == ("the parent's", 2)


def refused(block: Any, error: Exception | None) -> bool:
    """Whether the end of a block is refused in a forked child, or its error comes through."""
    try:
        swallowed = block.__exit__(type(error) if error else None, error, None)
    except LockLostError as raised:
        return error is None and "forked" in str(raised)
    return error is not None and not swallowed


@pytest.mark.parametrize("api", ["async", "sync"])
async def test_a_renewal_that_failed_is_tried_again_while_the_lock_lasts(
    proxy: Proxy, client: Any, api: str
) -> None:
    """The server is silent for half of the lock's time, and the first renewal falls into it."""
    config = {"storage": "redis", "url": proxy.url, "lease_seconds": 1.5}

    def fall_silent() -> None:
        proxy.swallow_replies = True

    def speak_again() -> None:
        proxy.swallow_replies = False

    for after, act in ((0.3, fall_silent), (1.0, speak_again)):
        threading.Timer(after, act).start()
    if api == "async":
        async with await core.WorkingMemoryStore.initialize(config) as store:
            await store.get_or_create("c", "user", "agent")
            async with store.locked("c") as memory:
                await asyncio.sleep(2.5)
                memory.end_turn("Hello", "greet")
    else:
        await asyncio.to_thread(hold_for, config, 2.5)

    assert client.hget("wm:{c}", "data").count('"Hello"') == 1


def hold_for(config: dict[str, object], seconds: float) -> None:
    with sync.WorkingMemoryStore.initialize(config) as store:
        store.get_or_create("c", "user", "agent")
        with store.locked("c") as memory:
            time.sleep(seconds)
            memory.end_turn("Hello", "greet")


def test_a_lock_that_a_thread_held_at_a_fork_is_free_in_the_child(url: str) -> None:
    config = {"storage": "redis", "url": url, "lock_timeout": 0.4}
    with sync.WorkingMemoryStore.initialize(config) as store:
        store.get_or_create("c", "user", "agent")
        store.get_or_create("d", "user", "agent")
        with store.locked("c"):
            child = os.fork()
            if child == 0:
                try:
                    store.end_turn("c", "Hello", "greet")
                except LockTimeoutError:
                    os._exit(0 if store.end_turn("d", "Hello", "greet").revision == 2 else 1)
                os._exit(2)
            _, status = os.waitpid(child, 0)

        assert status == 0


def test_a_client_of_the_other_api_is_refused(url: str) -> None:
    with pytest.raises(TypeError, match=r"redis\.asyncio"):
        core.RedisWorkingMemoryStore(redis.Redis.from_url(url))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"redis\.asyncio"):
        sync.RedisWorkingMemoryStore(redis.asyncio.Redis.from_url(url))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"not <class 'str'>; initialize\(\) takes a URL"):
        sync.RedisWorkingMemoryStore(url)  # type: ignore[arg-type]


@pytest.mark.parametrize("decode", [True, False])
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_client_may_decode_and_speak_as_it_likes(url: str, decode: bool, protocol: int) -> None:
    with (
        redis.Redis.from_url(url, decode_responses=decode, protocol=protocol) as mine,
        sync.RedisWorkingMemoryStore(mine) as store,
    ):
        store.get_or_create("c", "user", "agent")

        assert store.end_turn("c", "né", "greet") == store.get("c")


async def test_closing_the_store_leaves_the_users_client_open(url: str) -> None:
    async with redis.asyncio.Redis.from_url(url) as mine:
        store = core.RedisWorkingMemoryStore(mine, 60, 2)
        await store.get_or_create("c", "user", "agent")

        await store.close()

        assert await mine.ping()
        assert 0 < await mine.ttl("wm:{c}") <= 60


def test_the_error_for_a_missing_driver_names_the_extra_to_install() -> None:
    code = (
        "import sys; sys.modules['redis'] = None\n"
        "from jazzmine.sync.working_memory import RedisWorkingMemoryStore, WorkingMemoryStore\n"
        "try: WorkingMemoryStore.initialize('redis://localhost:1/0')\n"
        "except ImportError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert "pip install 'jazzmine[redis]>=2.0'" in run.stdout
