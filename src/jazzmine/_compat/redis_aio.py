"""The clients of redis-py for an event loop."""

from __future__ import annotations

import sys
from asyncio import TimeoutError as AnyTimeoutError  # another than the built-in before 3.11
from typing import TYPE_CHECKING, Any, TypeAlias

from jazzmine._compat.redis_driver import redis_driver

if sys.version_info >= (3, 11):
    from asyncio import timeout as time_limit
else:
    from async_timeout import timeout as time_limit

if TYPE_CHECKING:
    import redis.asyncio

__all__ = [
    "AnyRedis",
    "AnyTimeoutError",
    "client_for",
    "cluster_client_for",
    "require_client",
    "time_limit",
]

AnyRedis: TypeAlias = "redis.asyncio.Redis | redis.asyncio.RedisCluster"


def require_client(client: Any) -> None:
    """Raise `TypeError` unless this is an async client."""
    driver = redis_driver()
    import redis.asyncio

    if isinstance(client, (driver.Redis, driver.RedisCluster)):
        raise TypeError("an async store takes a client of redis.asyncio, not of redis")
    if not isinstance(client, (redis.asyncio.Redis, redis.asyncio.RedisCluster)):
        raise TypeError(
            f"redis_client must be a client of redis.asyncio, not a {type(client).__name__}"
        )


def client_for(url: str, patience: float) -> AnyRedis:
    """Return a client of one server, without connecting to it.

    Args:
        patience: how long connecting may take, in s.

    Raises:
        ValueError, TypeError: the URL is malformed, or has an unknown option.
    """
    redis_driver()
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    # The store limits the time of each command, for less than `socket_timeout` costs.
    client = Redis.from_url(
        url,
        protocol=2,
        retry=Retry(NoBackoff(), 0),
        socket_connect_timeout=patience,
        socket_timeout=None,
    )
    pool: Any = client.connection_pool
    pool.connection_class = type("AbortingConnection", (_Aborting, pool.connection_class), {})
    pool.make_connection()  # refuses an unknown option; does not connect
    return client


def cluster_client_for(url: str, patience: float) -> AnyRedis:
    """Return a client of the cluster that a server belongs to."""
    from redis.asyncio import RedisCluster

    return RedisCluster.from_url(url, socket_timeout=patience, socket_connect_timeout=patience)


class _Aborting:
    """A connection that drops what it has not sent yet when it is given up."""

    _writer: Any

    async def disconnect(self, nowait: bool = False, **options: Any) -> None:
        if nowait and self._writer is not None:
            self._writer.transport.abort()
        await super().disconnect(nowait=nowait, **options)  # type: ignore[misc]
