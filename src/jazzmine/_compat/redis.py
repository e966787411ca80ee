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

AsyncAnyRedis: TypeAlias = "redis.asyncio.Redis | redis.asyncio.RedisCluster"
SyncAnyRedis: TypeAlias = "redis.Redis | redis.RedisCluster"

# A call of the sync API is limited by the time-outs of its client's sockets. In the async API, a
# `socket_timeout` would make a task for each command, which may lose a cancellation before
# Python 3.12.
async_time_limit = asyncio.timeout
sync_time_limit = nullcontext


def async_socket_timeout(seconds: float) -> float | None:
    """Return the `socket_timeout` of a client whose calls may wait so long."""
    return None


def sync_socket_timeout(seconds: float) -> float | None:
    """Return the `socket_timeout` of a client whose calls may wait so long."""
    return seconds


def async_redis() -> ModuleType:
    """Return the module with the clients."""
    clients: ModuleType = redis_driver().asyncio
    return clients


sync_redis = redis_driver
