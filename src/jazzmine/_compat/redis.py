"""The clients of redis-py: for an event loop, and for threads.

`redis` and `redis.asyncio` have the same names.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from jazzmine.backends.redis.driver import redis_driver

if TYPE_CHECKING:
    import redis
    import redis.asyncio

__all__ = [
    "AsyncAnyRedis",
    "SyncAnyRedis",
    "async_redis",
    "async_socket_timeout",
    "async_time_limit",
    "sync_redis",
    "sync_socket_timeout",
    "sync_time_limit",
]

# The async API

AsyncAnyRedis: TypeAlias = "redis.asyncio.Redis | redis.asyncio.RedisCluster"

async_time_limit = asyncio.timeout


def async_redis() -> ModuleType:
    """Return the module with the clients."""
    redis_driver()
    import redis.asyncio
    import redis.asyncio.retry

    return redis.asyncio


def async_socket_timeout(seconds: float) -> float | None:
    """Return the `socket_timeout` of a client whose calls may wait so long.

    The time limit ends every wait. A `socket_timeout` makes a task for each command, which may
    lose a cancellation before Python 3.12.
    """
    return None


# The sync API

SyncAnyRedis: TypeAlias = "redis.Redis | redis.RedisCluster"

# The time-outs of the client's sockets limit a call.
sync_time_limit = nullcontext

sync_redis = redis_driver


def sync_socket_timeout(seconds: float) -> float | None:
    """Return the `socket_timeout` of a client whose calls may wait so long."""
    return seconds
