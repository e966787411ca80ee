"""The clients of redis-py for threads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from jazzmine.backends.redis.driver import redis_driver
from jazzmine.deadline import Deadline

if TYPE_CHECKING:
    import redis

__all__ = [
    "INTERRUPTIBLE",
    "AnyRedis",
    "AnyTimeoutError",
    "Commands",
    "client_for",
    "cluster_for",
    "is_client",
    "time_limit",
]

# Whether `time_limit` ends a wait of any client, rather than of those of `client_for` alone.
INTERRUPTIBLE = False

AnyRedis: TypeAlias = "redis.Redis | redis.RedisCluster"
AnyTimeoutError = TimeoutError

_end: ContextVar[float] = ContextVar("_end")


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limit how long the connections of a store's own client wait in a block, all in all."""
    token = _end.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _end.reset(token)


def is_client(client: Any) -> bool:
    """Whether this is a sync client."""
    driver = redis_driver()
    return isinstance(client, (driver.Redis, driver.RedisCluster))


def client_for(url: str, patience: float) -> AnyRedis:
    """Return a client of one server that waits `patience` s for it; does not connect.

    Raises:
        ValueError, TypeError: the URL is malformed, or has an unknown option.
    """
    limits = {"socket_connect_timeout": patience, "socket_timeout": patience}
    client: Any = redis_driver().Redis.from_url(url, protocol=2, **limits)
    pool = _limited(client.connection_pool)
    pool.connection_class(**pool.connection_kwargs)  # refuses an unknown option
    made: AnyRedis = client
    return made


def cluster_for(url: str, patience: float) -> AnyRedis:
    """Return a client of the cluster that a server belongs to, which is asked for the others."""
    driver = redis_driver()
    client: AnyRedis = driver.RedisCluster.from_url(
        url,
        connection_pool_class=lambda **settings: _limited(driver.ConnectionPool(**settings)),
        socket_connect_timeout=patience,
        socket_timeout=patience,
    )
    return client


class Commands:
    """Sends each command at once: threads have connections of their own.

    Args:
        client: the client that sends them.
        patience: how long a command may take, in s; the client limits that.
    """

    def __init__(self, client: AnyRedis, patience: float) -> None:
        self._client: Any = client

    def execute(self, deadline: Deadline, *command: Any) -> Any:
        """Send a command, and return its reply with bytes for text."""
        return self._client.execute_command(*command, NEVER_DECODE=True)


def _limited(pool: Any) -> Any:
    pool.connection_class = type("StoreConnection", (_Limited, pool.connection_class), {})
    return pool


class _Limited:
    """A connection that waits no longer than `time_limit` says, however often it waits."""

    socket_timeout: float | None
    _socket_connect_timeout: float | None

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
        self.settimeout(timeout)

    def settimeout(self, timeout: float | None) -> None:
        self._timeout = timeout

    def __getattr__(self, name: str) -> Any:
        if name in ("recv", "recv_into", "sendall"):
            self._sock.settimeout(_sooner(self._timeout))
        return getattr(self._sock, name)


def _sooner(timeout: float | None) -> float | None:
    """Return the shorter of a time-out and what is left of the limit."""
    remaining = _end.get(float("inf")) - time.monotonic()
    if remaining <= 0 and timeout != 0:
        raise TimeoutError("the time limit is over")
    return min(float("inf") if timeout is None else timeout, max(remaining, 0.0))
