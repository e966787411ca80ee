"""Redis Sentinel: a failover under load, with clients that the user made."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from jazzmine.core import working_memory as core
from jazzmine.errors import JazzmineError
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache
from jazzmine.records.working_memory import WorkingMemory
from tests.servers.redis import Sentinels, eventually

CALLERS = 4


@pytest.fixture
def sentinels() -> Iterator[Sentinels]:
    with Sentinels() as started:
        yield started


def client_of(sentinels: Sentinels) -> Any:
    """A client of the primary that the Sentinels report, as documented."""
    limits: dict[str, Any] = {
        "socket_timeout": 2.0,
        "socket_connect_timeout": 2.0,
        "retry": Retry(NoBackoff(), 0),
    }
    kind: Any = Sentinel
    sentinel = kind(sentinels.addresses, sentinel_kwargs=limits, **limits)
    return sentinel.master_for(sentinels.name)


def check(memory: WorkingMemory | None, tried: Counter[str]) -> None:
    """Nothing is there twice, and nothing comes from nowhere."""
    assert memory is not None
    assert memory.current_turn is not None
    kept = Counter(call.tool_name for call in memory.current_turn.tool_calls)
    assert [name for name, times in kept.items() if times > 1] == []
    assert kept.keys() <= tried.keys()


async def test_after_a_failover_under_load_no_update_is_there_twice(sentinels: Sentinels) -> None:
    client = client_of(sentinels)
    tried: Counter[str] = Counter()
    done: list[str] = []
    over = asyncio.Event()
    async with core.RedisWorkingMemoryStore(client) as store:
        await store.get_or_create("c", "user", "agent")
        await store.begin_turn("c", TurnCache(1))
        sentinels.primary.client.wait(1, 2000)

        async def update(caller: int) -> None:
            number = 0
            while not over.is_set():
                number += 1
                tried[f"{caller}-{number}"] += 1
                try:
                    await store.record_tool_call("c", ToolCallRecord(f"{caller}-{number}", {}))
                    done.append(f"{caller}-{number}")
                except JazzmineError:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.005)

        callers = [asyncio.create_task(update(caller)) for caller in range(CALLERS)]
        await asyncio.sleep(0.3)
        sentinels.primary.kill()
        await asyncio.to_thread(eventually, sentinels.failed_over)
        before = len(done)
        await asyncio.to_thread(eventually, lambda: len(done) > before + 20)
        over.set()
        await asyncio.gather(*callers)

        check(await store.get("c"), tried)
    await client.aclose()
    for sentinel in client.connection_pool.sentinel_manager.sentinels:
        await sentinel.aclose()
