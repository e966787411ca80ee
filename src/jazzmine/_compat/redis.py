"""The clients of redis-py: for an event loop, and for threads.

`redis` and `redis.asyncio` have the same names.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from jazzmine.backends.redis.driver import redis_driver

if TYPE_CHECKING:
    import redis
    import redis.asyncio

AsyncAnyRedis: TypeAlias = "redis.asyncio.Redis | redis.asyncio.RedisCluster"
SyncAnyRedis: TypeAlias = "redis.Redis | redis.RedisCluster"

# A call of the sync API is limited by the time-outs of its client's sockets.
async_time_limit = asyncio.timeout
sync_time_limit = nullcontext


def async_pool(url: str, size: int, settings: dict[str, Any]) -> tuple[Any, asyncio.Semaphore]:
    """Return a pool of so many connections, and what a call holds while it uses one of them.

    redis-py's own pool that waits takes a quarter of the time of a small command. A
    `socket_timeout` makes a task for each command, which may lose a cancellation before
    Python 3.12.
    """
    without_timeout = {**settings, "max_connections": size, "socket_timeout": None}
    pool = async_redis().ConnectionPool.from_url(url, **without_timeout)
    return pool, asyncio.Semaphore(pool.max_connections)  # the URL may have another number


def sync_pool(url: str, size: int, settings: dict[str, Any]) -> tuple[Any, nullcontext[None]]:
    """Return a pool of so many connections, which a call waits for, and nothing to hold."""
    pool, seconds = sync_redis().BlockingConnectionPool, settings["socket_timeout"]
    return pool.from_url(url, max_connections=size, timeout=seconds, **settings), nullcontext()


def async_redis() -> ModuleType:
    """Return the module with the clients."""
    clients: ModuleType = redis_driver().asyncio
    return clients


sync_redis = redis_driver
