"""The clients of redis-py for an event loop."""

from __future__ import annotations

from asyncio import timeout as time_limit
from typing import TYPE_CHECKING, Any, TypeAlias

from jazzmine.backends.redis.driver import make_connections_of, redis_driver

AnyTimeoutError = TimeoutError

if TYPE_CHECKING:
    import redis.asyncio

__all__ = [
    "AnyRedis",
    "AnyTimeoutError",
    "client_for",
    "cluster_for",
    "require_client",
    "time_limit",
]

AnyRedis: TypeAlias = "redis.asyncio.Redis | redis.asyncio.RedisCluster"


def require_client(client: Any) -> None:
    """Raise `TypeError` unless this is an async client."""
    redis_driver()
    from redis.asyncio import Redis, RedisCluster

    if not isinstance(client, (Redis, RedisCluster)):
        raise TypeError(
            f"redis_client must be a {AnyRedis}, not {type(client)!r}; initialize() takes a URL"
        )


def client_for(url: str, timeout: float) -> AnyRedis:
    """Return a client of one server that waits for it `timeout` s at most; does not connect.

    Raises:
        ValueError, TypeError, RedisError: the URL is malformed, or has an unknown or wrong option.
    """
    redis_driver()
    from redis.asyncio import Redis

    # `time_limit` ends every wait, and costs less than `socket_timeout`.
    limits: Any = {"socket_connect_timeout": timeout, "socket_timeout": None}
    client = Redis.from_url(url, protocol=2, **limits)
    make_connections_of(client.connection_pool, _Aborting)
    return client


async def cluster_for(url: str, timeout: float) -> AnyRedis:
    """Return a client of the cluster that a server belongs to.

    A node that is silent for `timeout` s is given up.
    """
    from redis.asyncio import RedisCluster

    limits: Any = {"socket_connect_timeout": timeout, "socket_timeout": timeout}
    return RedisCluster.from_url(url, **limits)


class _Aborting:
    """A connection that drops what it has not sent yet when it is given up."""

    _writer: Any

    async def disconnect(self, nowait: bool = False, **options: Any) -> None:
        if nowait and self._writer is not None:
            self._writer.transport.abort()
        await super().disconnect(nowait=nowait, **options)  # type: ignore[misc]
