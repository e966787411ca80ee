"""The clients of redis-py for threads."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from jazzmine._compat.redis_driver import has_time_limit, redis_driver

if TYPE_CHECKING:
    import redis

__all__ = [
    "AnyRedis",
    "AnyTimeoutError",
    "client_for",
    "cluster_client_for",
    "require_client",
    "time_limit",
]

AnyRedis: TypeAlias = "redis.Redis | redis.RedisCluster"
AnyTimeoutError = TimeoutError

_end: ContextVar[float] = ContextVar("_end")


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limit how long the connections that a store made itself wait in a block, all in all."""
    token = _end.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _end.reset(token)


def require_client(client: Any) -> None:
    """Raise `TypeError` unless this is a sync client; warn if it may wait for ever."""
    driver = redis_driver()
    if type(client).__module__.startswith("redis.asyncio"):
        raise TypeError("a sync store takes a client of redis, not of redis.asyncio")
    if not isinstance(client, (driver.Redis, driver.RedisCluster)):
        raise TypeError(f"redis_client must be a client of redis, not a {type(client).__name__}")
    if not has_time_limit(client):
        warnings.warn(
            "redis_client has no socket_timeout: a call may wait for a silent server for ever",
            RuntimeWarning,
            stacklevel=4,
        )


def client_for(url: str, patience: float) -> AnyRedis:
    """Return a client of one server, without connecting to it.

    Args:
        patience: how long connecting, and each wait for a reply, may take, in s.

    Raises:
        ValueError, TypeError: the URL is malformed, or has an unknown option.
    """
    driver = redis_driver()
    pool = _pool_class().from_url(url, protocol=2, **_settings(patience))
    pool.make_connection()  # refuses an unknown option; does not connect
    pool.reset()
    client: AnyRedis = driver.Redis.from_pool(pool)
    return client


def cluster_client_for(url: str, patience: float) -> AnyRedis:
    """Return a client of the cluster that a server belongs to; it connects to that one."""
    client: AnyRedis = redis_driver().RedisCluster.from_url(
        url, connection_pool_class=_pool_class(), **_settings(patience)
    )
    return client


def _settings(patience: float) -> dict[str, Any]:
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    retry = Retry(NoBackoff(), 0)
    return {"retry": retry, "socket_timeout": patience, "socket_connect_timeout": patience}


def _pool_class() -> Any:
    from redis.connection import Connection, ConnectionPool

    class Pool(ConnectionPool):
        """A pool of connections that obey `time_limit`."""

        def __init__(self, connection_class: type = Connection, **settings: Any) -> None:
            limited = type("LimitedConnection", (_Limited, connection_class), {})
            super().__init__(connection_class=limited, **settings)

    return Pool


class _Limited:
    """A connection whose waits end with `time_limit`, however often it waits."""

    socket_timeout: float | None

    @property
    def socket_connect_timeout(self) -> float | None:
        return _sooner(self._socket_connect_timeout)

    @socket_connect_timeout.setter
    def socket_connect_timeout(self, value: float | None) -> None:
        self._socket_connect_timeout = value

    def _connect(self) -> Any:
        usual, self.socket_timeout = self.socket_timeout, self.socket_connect_timeout
        try:
            return _LimitedSocket(super()._connect(), usual)  # type: ignore[misc]
        finally:
            self.socket_timeout = usual


class _LimitedSocket:
    def __init__(self, sock: Any, timeout: float | None) -> None:
        self._sock = sock
        self._timeout = timeout

    def settimeout(self, timeout: float | None) -> None:
        self._timeout = timeout

    def __getattr__(self, name: str) -> Any:
        if name in ("recv", "recv_into", "sendall"):
            self._sock.settimeout(_sooner(self._timeout))
        return getattr(self._sock, name)


def _sooner(timeout: float | None) -> float | None:
    """Return the shorter of a time-out and what is left of the limit."""
    end = _end.get(None)
    if end is None:
        return timeout
    remaining = end - time.monotonic()
    if remaining <= 0 and timeout != 0:
        raise TimeoutError("the time limit is over")
    return remaining if timeout is None else min(timeout, remaining)
