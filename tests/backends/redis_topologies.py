"""The deployments of Redis, each with proxies in front of the servers that have the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.asyncio.sentinel
import redis.retry
import redis.sentinel
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.crc import key_slot

from jazzmine.backends.redis.keys import keys_of
from jazzmine.core import working_memory as core
from jazzmine.sync import working_memory as sync
from tests.backends.redis_apis import APIS, Opened, open_async, open_sync
from tests.servers.proxy import Proxy
from tests.servers.redis import Cluster, Sentinels, Server, running

TOPOLOGIES = ["standalone", "cluster"]

LIMIT = 2.0


@dataclass
class Topology:
    """Servers, functions that open a store of either API on them, and proxies in front of them.

    Attributes:
        open: opens a store through the proxies.
        open_beside: opens a sync store that bypasses them.
        proxies: the proxy in front of each primary.
        primaries: a client of each primary.
    """

    open: Callable[..., Any]
    open_beside: Callable[..., Any]
    proxies: list[Proxy]
    primaries: list[Any]

    def proxy_of(self, conversation_id: str) -> Proxy:
        """The proxy in front of the server that stores a conversation."""
        if len(self.proxies) == 1:
            return self.proxies[0]
        slot = key_slot(keys_of(conversation_id)[0])
        return self.proxies[slot * len(self.proxies) // 16384]

    def keys(self, pattern: str) -> list[bytes]:
        """All keys that match a pattern."""
        return [key for primary in self.primaries for key in primary.keys(pattern)]

    def locked(self) -> list[Any]:
        """The locks that are held."""
        return self.keys("wm_lock:*")


def retry(asynchronous: bool, retries: int) -> Any:
    kind: Any = redis.asyncio.retry.Retry if asynchronous else redis.retry.Retry
    return kind(NoBackoff(), retries)


def sentinel_client(sentinels: Sentinels, limit: float = LIMIT) -> Any:
    """An async client of the primary that the Sentinels report, as documented."""
    limits = {"socket_timeout": limit, "socket_connect_timeout": limit}
    kind: Any = redis.asyncio.sentinel.Sentinel
    sentinel = kind(
        sentinels.addresses,
        sentinel_kwargs={**limits, "retry": retry(True, 0)},
        **limits,
        retry=retry(True, 0),
    )
    return sentinel.master_for(sentinels.name)


def cluster_client(
    cluster: Cluster, asynchronous: bool, remap: Any = None, limit: float = LIMIT
) -> Any:
    """A client of a cluster, as documented."""
    nodes: Any = [(host, port) for host, port in cluster.addresses]
    if asynchronous:
        kind: Any = redis.asyncio.RedisCluster
        nodes = [redis.asyncio.cluster.ClusterNode(*address) for address in nodes]
    else:
        kind = redis.RedisCluster
        make: Any = ClusterNode
        nodes = [make(*address) for address in nodes]
    return kind(
        startup_nodes=nodes,
        address_remap=remap,
        socket_timeout=limit,
        socket_connect_timeout=limit,
        retry=retry(asynchronous, 1),
    )


async def close(client: Any) -> None:
    """Close an async client, and those of its Sentinels."""
    await client.aclose()
    pool = getattr(client, "connection_pool", None)
    for sentinel in getattr(getattr(pool, "sentinel_manager", None), "sentinels", ()):
        await sentinel.aclose()


def opener(stack: ExitStack, asynchronous: bool, make: Callable[[], Any]) -> Callable[..., Any]:
    """Return a function that opens a store with its own client, and closes both at the end."""

    def open_store(**options: Any) -> Any:
        if asynchronous:
            made: list[Any] = []

            async def build() -> Any:
                made.append(make())
                # The first command goes to any node, and a redirection around the proxies.
                await made[0].initialize()
                return core.RedisWorkingMemoryStore(made[0], **options)

            return stack.enter_context(Opened(build, lambda: close(made[0])))
        client = make()
        stack.callback(client.close)
        return stack.enter_context(sync.RedisWorkingMemoryStore(client, **options))

    return open_store


@contextmanager
def topology(name: str, api: Any, limit: float = LIMIT) -> Iterator[Topology]:
    """Provide an empty Redis deployment of a kind for a block.

    Args:
        limit: the time-outs of the clients for a cluster, in s.
    """
    assert api in APIS
    asynchronous = api is open_async
    with ExitStack() as stack:
        if name == "standalone":
            servers: list[Server] = [running(Server)]
        else:
            servers = running(Cluster).primaries
        for server in servers:
            server.client.flushdb()
        proxies = [stack.enter_context(Proxy(server.port)) for server in servers]
        ports = {proxy.target: proxy.port for proxy in proxies}
        if name == "standalone":

            def open_store(**options: Any) -> Any:
                return stack.enter_context(api(proxies[0].url, **options))

            def open_beside(**options: Any) -> Any:
                return stack.enter_context(open_sync(servers[0].url, **options))
        else:
            cluster = running(Cluster)
            open_store = opener(
                stack,
                asynchronous,
                lambda: cluster_client(
                    cluster, asynchronous, lambda at: (at[0], ports.get(at[1], at[1])), limit
                ),
            )
            open_beside = opener(stack, False, lambda: cluster_client(cluster, False))
        yield Topology(open_store, open_beside, proxies, [each.client for each in servers])
        for server in servers:
            server.client.flushdb()
