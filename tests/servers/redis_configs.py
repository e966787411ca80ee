"""The configuration of a store for each kind of Redis deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel

from jazzmine._async.clients.redis import RedisClient
from jazzmine._sync.clients.redis import RedisClient as SyncRedisClient
from tests.servers.redis import Cluster, Sentinels, Server, database, running

Config = dict[str, object]


@contextmanager
def alone() -> Iterator[Config]:
    """One server."""
    with database() as url:
        yield {"storage": "redis", "url": url}


@contextmanager
def behind_sentinel() -> Iterator[Config]:
    """The primary of the Sentinels."""
    sentinels = running(Sentinels)
    watch: Any = redis.asyncio.sentinel.Sentinel
    sync_watch: Any = redis.sentinel.Sentinel

    def client() -> Any:
        sentinel = watch(sentinels.addresses)
        return _with_sentinels(sentinel.master_for(sentinels.name))

    def sync_client() -> Any:
        sentinel = sync_watch(sentinels.addresses)
        return _with_sentinels(sentinel.master_for(sentinels.name))

    with _emptied(sentinels.primary), _clients(client, sync_client):
        yield {"storage": "redis", "url": "redis://the-master"}


@contextmanager
def on_cluster() -> Iterator[Config]:
    """Three primaries that share the slots."""
    cluster = running(Cluster)
    with _emptied(*cluster.primaries):
        yield {"storage": "redis", "url": cluster.primaries[0].url}


def _with_sentinels(client: Any) -> Any:
    """Make closing the client close its connections to the Sentinels too."""
    sentinels = client.connection_pool.sentinel_manager.sentinels
    if isinstance(client, redis.Redis):
        close = client.close

        def close_all() -> None:
            for sentinel in sentinels:
                sentinel.close()
            close()

        client.close = close_all  # type: ignore[method-assign]
    else:
        aclose = client.aclose

        async def aclose_all() -> None:
            for sentinel in sentinels:
                await sentinel.aclose()
            await aclose()

        client.aclose = aclose_all
    return client


@contextmanager
def _clients(make: Callable[[], Any], make_sync: Callable[[], Any]) -> Iterator[None]:
    """Replace the client for a URL by one that no URL can describe."""
    with (
        _from_url(RedisClient, make),
        _from_url(SyncRedisClient, make_sync),
    ):
        yield


def _from_url(kind: Any, make: Callable[[], Any]) -> Any:
    def from_url(url: str, timeout: float, attempt_seconds: float) -> Any:
        return kind(make(), timeout, url, attempt_seconds)

    return patch.object(kind, "from_url", from_url)


@contextmanager
def _emptied(*servers: Server) -> Iterator[None]:
    for server in servers:
        server.client.flushdb()
    yield
    for server in servers:
        server.client.flushdb()
