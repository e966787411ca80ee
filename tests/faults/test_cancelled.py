"""Calls are cancelled at random moments, and the store works as before."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jazzmine.core import message_store, working_memory
from jazzmine.core.working_memory import InMemoryWorkingMemoryStore
from tests.behaviour.samples import conversation, message, messages, trace
from tests.faults.sizes import LENIENCE, size, tell
from tests.servers import mongodb, postgres, redis

# PyMongo, stopped while it connects, may leave the socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)

CANCELLATIONS = size(200, 2000)
POOL = 3
AT_ONCE = 6
KEY = "c1"

MESSAGE_CALLS: list[Callable[[Any], Any]] = [
    lambda store: store.store_message(message("m1")),
    lambda store: store.store_messages(messages("m1", "m2")),
    lambda store: store.store_turn(messages=[message("m3")], trace=trace("m3")),
    lambda store: store.get_messages_by_conversation_id(KEY),
    lambda store: store.delete_message("m2"),
]
MEMORY_CALLS: list[Callable[[Any], Any]] = [
    lambda store: store.end_turn(KEY, "response", "intent"),
    lambda store: in_a_block(store),
    lambda store: store.get(KEY),
]


async def in_a_block(store: Any) -> None:
    async with store.locked(KEY) as memory:
        await asyncio.sleep(0)
        memory.end_turn("response", "intent")


@asynccontextmanager
async def opened(name: str, folder: Path) -> AsyncIterator[tuple[Any, list[Callable[[Any], Any]]]]:
    """A store with a conversation, and the calls to make to it."""
    if name in ("memory", "redis"):
        with redis.database() as url:
            config: dict[str, object] = {"storage": "memory"}
            if name == "redis":
                config = {"storage": "redis", "url": url}
            async with await working_memory.WorkingMemoryStore.initialize(config) as memory:
                await memory.get_or_create(KEY, "u1", "a1")
                yield memory, MEMORY_CALLS
    else:
        with postgres.empty_schema() as schema, mongodb.database() as database:
            configs: dict[str, dict[str, object]] = {
                "json": {"path": str(folder / "messages.json"), "fsync": False},
                "postgres": {
                    "storage": "postgres",
                    "dsn": postgres.dsn(),
                    "schema": schema,
                    "pool_min": POOL,
                    "pool_max": POOL,
                },
                "mongodb": database,
            }
            async with await message_store.MessageStore.initialize(configs[name]) as store:
                await store.store_conversation(conversation(KEY))
                yield store, MESSAGE_CALLS


async def cancel_at_random(store: Any, calls: list[Callable[[Any], Any]], seed: int) -> None:
    """Cancel calls among others, and fail unless none suffers by it."""
    chance = random.Random(seed)
    for number in range(0, CANCELLATIONS, 2):
        tasks = [asyncio.ensure_future(chance.choice(calls)(store)) for _ in range(4)]
        if chance.random() < 0.5:
            for _ in range(chance.randrange(12)):
                await asyncio.sleep(0)
        else:
            await asyncio.sleep(chance.uniform(0, 0.004))
        for task in tasks[:2]:
            task.cancel()
        done, pending = await asyncio.wait(tasks, timeout=20)
        assert not pending, f"a call hangs after cancellation {number}"
        failed = [task.exception() for task in done if not task.cancelled() and task.exception()]
        assert not failed, f"another call failed: {failed}"


async def is_whole(store: Any, calls: list[Callable[[Any], Any]]) -> None:
    """Fail unless a call is made once locks have ended (100 ms), then as many as ever at once."""
    call = calls[0]
    try:
        await asyncio.wait_for(call(store), 0.1 + 0.2 + LENIENCE)
        await asyncio.wait_for(asyncio.gather(*(call(store) for _ in range(AT_ONCE))), 5)
    except asyncio.TimeoutError:
        raise AssertionError("a lock or a connection is still held") from None


@pytest.mark.parametrize("name", ["json", "postgres", "mongodb", "memory", "redis"])
async def test_cancelled_calls_leave_nothing_behind(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    others = asyncio.all_tasks()
    async with opened(name, tmp_path) as (store, calls):
        await cancel_at_random(store, calls, seed=1)
        await is_whole(store, calls)
        if name == "redis":
            await asyncio.sleep(0.1 + LENIENCE / 4)
            client = redis.running(redis.Server).client
            assert client.keys("wm_lock:*") == []
    await asyncio.sleep(0.05)
    gc.collect()
    assert asyncio.all_tasks() == others, "a task is left over"
    assert "pending" not in caplog.text
    tell(f"cancelled, {name}: {CANCELLATIONS} cancellations: nothing held, nothing pending")


class LeaksItsLock(InMemoryWorkingMemoryStore):
    """Keeps the lock of a call that was cancelled."""

    lock = asyncio.Lock()

    async def end_turn(self, *arguments: Any) -> Any:
        """Acquire a lock that only a call's regular end releases."""
        await self.lock.acquire()
        await asyncio.sleep(0.001)
        self.lock.release()


async def test_a_store_that_leaks_a_lock_is_found_out() -> None:
    store = LeaksItsLock()
    calls: list[Callable[[Any], Any]] = [MEMORY_CALLS[0]]

    with pytest.raises(AssertionError, match="still held"):
        await leak(store, calls)

    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.sleep(0.01)


async def leak(store: Any, calls: list[Callable[[Any], Any]]) -> None:
    task = asyncio.ensure_future(calls[0](store))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await is_whole(store, calls)
