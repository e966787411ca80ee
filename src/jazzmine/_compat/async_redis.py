"""The clients of redis-py for an event loop."""

from __future__ import annotations

import sys
from asyncio import TimeoutError as AnyTimeoutError  # another than the built-in before 3.11
from typing import TYPE_CHECKING, Any, TypeAlias

from jazzmine.backends.redis.driver import redis_driver

if sys.version_info >= (3, 11):
    from asyncio import timeout as time_limit
else:
    from async_timeout import timeout as time_limit

if TYPE_CHECKING:
    import redis.asyncio

__all__ = [
    "INTERRUPTIBLE",
    "AnyRedis",
    "AnyTimeoutError",
    "client_for",
    "cluster_for",
    "is_client",
    "time_limit",
]

# Whether `time_limit` ends a wait of any client, rather than of those of `client_for` alone.
INTERRUPTIBLE = True

AnyRedis: TypeAlias = "redis.asyncio.Redis | redis.asyncio.RedisCluster"


def is_client(client: Any) -> bool:
    """Whether this is an async client."""
    redis_driver()
    from redis.asyncio import Redis, RedisCluster

    return isinstance(client, (Redis, RedisCluster))


def client_for(url: str, patience: float) -> AnyRedis:
    """Return a client of one server that waits `patience` s for it; does not connect.

    Raises:
        ValueError, TypeError: the URL is malformed, or has an unknown option.
    """
    redis_driver()
    from redis.asyncio import Redis

    # The store limits the time of each command itself, for less than `socket_timeout` costs.
    client = Redis.from_url(url, protocol=2, socket_connect_timeout=patience, socket_timeout=None)
    pool: Any = client.connection_pool
    pool.connection_class = type("StoreConnection", (_Aborting, pool.connection_class), {})
    pool.make_connection()  # refuses an unknown option
    return client


async def cluster_for(url: str, patience: float) -> AnyRedis:
    """Return a client of the cluster that a server belongs to."""
    from redis.asyncio import RedisCluster

    return RedisCluster.from_url(url, socket_connect_timeout=patience, socket_timeout=patience)


class _Aborting:
    """A connection that drops what it has not sent yet when it is given up."""

    _writer: Any

    async def disconnect(self, nowait: bool = False, **options: Any) -> None:
        if nowait and self._writer is not None:
            self._writer.transport.abort()
        await super().disconnect(nowait=nowait, **options)  # type: ignore[misc]
