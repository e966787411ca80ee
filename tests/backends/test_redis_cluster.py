"""A Redis Cluster: keys in their slots, slots that move, nodes that fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

from jazzmine.errors import StoreUnavailableError
from jazzmine.sync import working_memory as sync
from tests.faults.sizes import TOLERANCE
from tests.servers.redis import Cluster, Server, eventually


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        yield started


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Any]:
    for primary in cluster.primaries:
        primary.client.flushdb()
    host, port = cluster.addresses[0]
    with redis.RedisCluster(host=host, port=port) as opened:
        yield opened


@pytest.fixture
def store(client: Any) -> Iterator[Any]:
    with sync.RedisWorkingMemoryStore(client, timeout=5) as opened:
        yield opened


def holder(cluster: Cluster, slot: int) -> tuple[Server, Server]:
    """The primary that has a slot, and another."""
    [(_, _, (_, port, *_))] = [
        entry
        for entry in cluster.primaries[0].client.execute_command("CLUSTER", "SLOTS")
        if entry[0] <= slot <= entry[1]
    ]
    [has] = [each for each in cluster.primaries if each.port == port]
    return has, next(each for each in cluster.primaries if each is not has)


def node_id(server: Server) -> str:
    return str(server.client.execute_command("CLUSTER", "MYID").decode())


def test_the_conversations_are_spread_and_counted_on_all_primaries(
    store: Any, cluster: Cluster
) -> None:
    for number in range(60):
        store.get_or_create(f"c{number}", "user", "agent")

    counts = [len(primary.client.keys("wm:*")) for primary in cluster.primaries]

    assert sum(counts) == store.active_count() == 60
    assert min(counts) > 0


def test_a_slot_that_moved_is_followed(store: Any, client: Any, cluster: Cluster) -> None:
    store.get_or_create("mover", "user", "agent")
    slot = client.keyslot("wm:{mover}")
    source, target = holder(cluster, slot)
    target.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(source))
    source.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(target))

    def move() -> None:
        while keys := source.client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 10):
            source.client.execute_command(
                "MIGRATE", "127.0.0.1", target.port, "", 0, 1000, "KEYS", *keys
            )
        for each in cluster.primaries:
            each.client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", node_id(target))

    mover = threading.Timer(0.3, move)
    mover.start()
    during = store.end_turn("mover", "Hello", "greet")
    mover.join()
    after = store.end_turn("mover", "Hello again", "greet")

    assert (during.revision, after.revision) == (2, 3)
    assert target.client.keys("wm:{mover}") != []
    assert source.client.keys("wm:{mover}") == []


def test_a_primary_that_is_gone_ends_a_call_at_its_deadline(client: Any, cluster: Cluster) -> None:
    slot = client.keyslot("wm:{c}")
    with sync.RedisWorkingMemoryStore(client, timeout=1) as store:
        store.get_or_create("c", "user", "agent")
        gone, _ = holder(cluster, slot)
        gone.kill()
        started = time.monotonic()

        with pytest.raises(StoreUnavailableError):
            store.end_turn("c", "Hello", "greet")
        took = time.monotonic() - started

        gone.start()
        eventually(lambda: b"cluster_state:ok" in gone.client.execute_command("CLUSTER", "INFO"))
        assert took < 1.5 + TOLERANCE
        assert eventually(lambda: store.get_or_create("c", "user", "agent"))
