"""A user's own client keeps its limits, instrumentation, substitutes and settings."""

from __future__ import annotations

import asyncio
import time

import fakeredis
import pytest
import redis
import redis.asyncio
from redis.crc import key_slot

from jazzmine.core import working_memory as core
from jazzmine.errors import ConfigurationError
from jazzmine.sync import working_memory as sync
from tests.faults.sizes import TOLERANCE
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
