"""The clients of redis-py for threads."""

from __future__ import annotations

import warnings
from contextlib import nullcontext as time_limit
from typing import TYPE_CHECKING, Any, TypeAlias

from jazzmine.backends.redis.driver import (
    connection_settings,
    failures,
    pauses,
    pool_settings,
    redis_driver,
    settings_of,
)

if TYPE_CHECKING:
    import redis

# In the sync API the time-outs of the client's sockets limit a call.
__all__ = ["AnyRedis", "client_for", "cluster_for", "new_retry", "require_client", "time_limit"]

AnyRedis: TypeAlias = "redis.Redis | redis.RedisCluster"


def require_client(client: Any) -> None:
    """Raise `TypeError` unless this is a sync client; warn where no time-out can end a call."""
    driver = redis_driver()
    if not isinstance(client, (driver.Redis, driver.RedisCluster)):
        raise TypeError(
            f"redis_client must be a {AnyRedis}, not {type(client)!r}; initialize() takes a URL"
        )
    if settings_of(client).get("socket_timeout", 0) is None:
        text = "redis_client has no socket_timeout: a call may wait for a silent server for ever"
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def new_retry() -> Any:
    """Return what repeats a call for as long as its errors are retryable."""
    return redis_driver().retry.Retry(pauses(), -1, failures())


def client_for(url: str, seconds: float) -> AnyRedis:
    """Return a client of one server; does not connect.

    Args:
        seconds: how long the server is waited for at once, in s.

    Raises:
        ValueError, TypeError, RedisError: the URL is malformed, or has an unknown or wrong option.
    """
    driver = redis_driver()
    pool = driver.BlockingConnectionPool.from_url(url, **pool_settings(seconds))
    return driver.Redis.from_pool(pool)  # type: ignore[no-any-return]


def cluster_for(url: str, seconds: float) -> AnyRedis:
    """Return a client of the cluster that a server belongs to, which is asked for the others."""
    return redis_driver().RedisCluster.from_url(url, **connection_settings(seconds))  # type: ignore[no-any-return]
