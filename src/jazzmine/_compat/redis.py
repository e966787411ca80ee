"""The clients of redis-py: for an event loop, and for threads."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

from jazzmine.backends.redis.driver import (
    connection_settings,
    failures,
    pauses,
    pool_settings,
    redis_driver,
    require_options,
    settings_of,
)

if TYPE_CHECKING:
    import redis
    import redis.asyncio

__all__ = [
    "AsyncAnyRedis",
    "SyncAnyRedis",
    "async_client_for",
    "async_cluster_for",
    "async_new_retry",
    "async_require_client",
    "async_time_limit",
    "sync_client_for",
    "sync_cluster_for",
    "sync_new_retry",
    "sync_require_client",
    "sync_time_limit",
]

# The async API

async_time_limit = asyncio.timeout

AsyncAnyRedis: TypeAlias = "redis.asyncio.Redis | redis.asyncio.RedisCluster"


def async_require_client(client: Any) -> None:
    """Raise `TypeError` unless this is an async client."""
    redis_driver()
    from redis.asyncio import Redis, RedisCluster

    if not isinstance(client, (Redis, RedisCluster)):
        raise TypeError(
            f"redis_client must be a {AsyncAnyRedis}, not {type(client)!r};"
            " initialize() takes a URL"
        )


def async_new_retry() -> Any:
    """Return what repeats a call for as long as its errors are retryable."""
    redis_driver()
    from redis.asyncio.retry import Retry

    return Retry(pauses(), -1, failures())  # type: ignore[arg-type]


def async_client_for(url: str, seconds: float) -> AsyncAnyRedis:
    """Return a client of one server; does not connect.

    Args:
        seconds: how long the server is waited for at once, in s.

    Raises:
        ValueError, TypeError, RedisError: the URL is malformed, or has an unknown or wrong option.
    """
    redis_driver()
    from redis.asyncio import BlockingConnectionPool, Redis

    # The time limit ends every wait. A `socket_timeout` makes a task for each command, which may
    # lose a cancellation before Python 3.12.
    settings = {**pool_settings(seconds), "socket_timeout": None}
    return Redis.from_pool(require_options(BlockingConnectionPool.from_url(url, **settings)))


async def async_cluster_for(url: str, seconds: float) -> AsyncAnyRedis:
    """Return a client of the cluster that a server belongs to."""
    from redis.asyncio import RedisCluster

    return RedisCluster.from_url(url, **connection_settings(seconds))


# The sync API

# The time-outs of the client's sockets limit a call.
sync_time_limit = nullcontext

SyncAnyRedis: TypeAlias = "redis.Redis | redis.RedisCluster"


def sync_require_client(client: Any) -> None:
    """Raise `TypeError` unless this is a sync client; warn where no time-out can end a call."""
    driver = redis_driver()
    if not isinstance(client, (driver.Redis, driver.RedisCluster)):
        raise TypeError(
            f"redis_client must be a {SyncAnyRedis}, not {type(client)!r}; initialize() takes a URL"
        )
    if settings_of(client).get("socket_timeout", 0) is None:
        text = "redis_client has no socket_timeout: a call may wait for a silent server for ever"
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def sync_new_retry() -> Any:
    """Return what repeats a call for as long as its errors are retryable."""
    return redis_driver().retry.Retry(pauses(), -1, failures())


def sync_client_for(url: str, seconds: float) -> SyncAnyRedis:
    """Return a client of one server; does not connect.

    Args:
        seconds: how long the server is waited for at once, in s.

    Raises:
        ValueError, TypeError, RedisError: the URL is malformed, or has an unknown or wrong option.
    """
    driver = redis_driver()
    pool = driver.BlockingConnectionPool.from_url(url, **pool_settings(seconds))
    return driver.Redis.from_pool(require_options(pool))  # type: ignore[no-any-return]


def sync_cluster_for(url: str, seconds: float) -> SyncAnyRedis:
    """Return a client of the cluster that a server belongs to, which is asked for the others."""
    return redis_driver().RedisCluster.from_url(url, **connection_settings(seconds))  # type: ignore[no-any-return]
