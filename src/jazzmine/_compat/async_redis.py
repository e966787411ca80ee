"""The clients of redis-py for an event loop."""

from __future__ import annotations

from asyncio import timeout as time_limit
from typing import TYPE_CHECKING, Any, TypeAlias

from jazzmine.backends.redis.driver import (
    connection_settings,
    failures,
    pauses,
    pool_settings,
    redis_driver,
)

if TYPE_CHECKING:
    import redis.asyncio

__all__ = ["AnyRedis", "client_for", "cluster_for", "new_retry", "require_client", "time_limit"]

AnyRedis: TypeAlias = "redis.asyncio.Redis | redis.asyncio.RedisCluster"


def require_client(client: Any) -> None:
    """Raise `TypeError` unless this is an async client."""
    redis_driver()
    from redis.asyncio import Redis, RedisCluster

    if not isinstance(client, (Redis, RedisCluster)):
        raise TypeError(
            f"redis_client must be a {AnyRedis}, not {type(client)!r}; initialize() takes a URL"
        )


def new_retry() -> Any:
    """Return what repeats a call for as long as its errors are retryable."""
    redis_driver()
    from redis.asyncio.retry import Retry

    return Retry(pauses(), -1, failures())  # type: ignore[arg-type]


def client_for(url: str, seconds: float) -> AnyRedis:
    """Return a client of one server; does not connect.

    Args:
        seconds: how long the server is waited for at once, in s.

    Raises:
        ValueError, TypeError, RedisError: the URL is malformed, or has an unknown or wrong option.
    """
    redis_driver()
    from redis.asyncio import BlockingConnectionPool, Redis

    # `time_limit` ends every wait. A `socket_timeout` makes a task for each command, which may
    # lose a cancellation before Python 3.12.
    settings = {**pool_settings(seconds), "socket_timeout": None}
    return Redis.from_pool(BlockingConnectionPool.from_url(url, **settings))


async def cluster_for(url: str, seconds: float) -> AnyRedis:
    """Return a client of the cluster that a server belongs to."""
    from redis.asyncio import RedisCluster

    return RedisCluster.from_url(url, **connection_settings(seconds))
