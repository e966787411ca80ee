"""The clients of redis-py for threads."""

from __future__ import annotations

import time
import warnings
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from jazzmine.backends.redis.driver import make_connections_of, redis_driver, settings_of

if TYPE_CHECKING:
    import redis

__all__ = [
    "AnyRedis",
    "AnyTimeoutError",
    "client_for",
    "cluster_for",
    "require_client",
    "time_limit",
]

AnyRedis: TypeAlias = "redis.Redis | redis.RedisCluster"
AnyTimeoutError = TimeoutError

_end: ContextVar[float] = ContextVar("_end", default=float("inf"))


class time_limit:
    """Limits how long the connections of a store's own client wait in a block, all in all."""

    def __init__(self, seconds: float) -> None:
        self._limit = time.monotonic() + seconds

    def __enter__(self) -> None:
        self._outer = _end.set(self._limit)

    def __exit__(self, *error: object) -> None:
        _end.reset(self._outer)


def require_client(client: Any) -> None:
    """Raise `TypeError` unless this is a sync client; warn where no time-out can end a call."""
    driver = redis_driver()
    if not isinstance(client, (driver.Redis, driver.RedisCluster)):
        raise TypeError(
            f"redis_client must be a {AnyRedis}, not {type(client)!r}; initialize() takes a URL"
        )
    if settings_of(client)["socket_timeout"] is None:
        text = "redis_client has no socket_timeout: a call may wait for a silent server for ever"
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def client_for(url: str, timeout: float) -> AnyRedis:
    """Return a client of one server that waits for it `timeout` s at most; does not connect.

    Raises:
        ValueError, TypeError, RedisError: the URL is malformed, or has an unknown or wrong option.
    """
    limits: Any = {"socket_connect_timeout": timeout, "socket_timeout": timeout}
    client = redis_driver().Redis.from_url(url, protocol=2, **limits)
    make_connections_of(client.connection_pool, _Limited)
    return client  # type: ignore[no-any-return]


def cluster_for(url: str, timeout: float) -> AnyRedis:
    """Return a client of the cluster that a server belongs to, which is asked for the others.

    A node that is silent for `timeout` s is given up.
    """
    driver = redis_driver()

    def pool(**settings: Any) -> Any:
        return make_connections_of(driver.ConnectionPool(**settings), _Limited)

    limits: Any = {"socket_connect_timeout": timeout, "socket_timeout": timeout}
    return driver.RedisCluster.from_url(url, connection_pool_class=pool, **limits)  # type: ignore[no-any-return]


def _limited(name: str) -> Any:
    """Make a time-out of a connection that is no longer than what is left of the limit."""
    return property(
        lambda self: _sooner(getattr(self, name)),
        lambda self, value: setattr(self, name, value),
    )


class _Limited:
    """A connection that waits no longer than `time_limit` says, however often it waits."""

    socket_timeout = _limited("_socket_timeout")
    socket_connect_timeout = _limited("_socket_connect_timeout")
    _socket_timeout: float | None

    def _connect(self) -> Any:
        return _LimitedSocket(super()._connect(), self._socket_timeout)  # type: ignore[misc]


class _LimitedSocket:
    def __init__(self, sock: Any, timeout: float | None) -> None:
        self._sock = sock
        self._timeout = timeout

    def __getattr__(self, name: str) -> Any:
        # Outside of a limit, and where it must not wait at all, the client sets the time-out.
        limited = name in ("recv", "recv_into", "sendall") and _end.get() < float("inf")
        if limited and self._sock.gettimeout() != 0:
            self._sock.settimeout(_sooner(self._timeout))
        return getattr(self._sock, name)


def _sooner(timeout: float | None) -> float | None:
    """Return the shorter of a time-out and what is left of the limit."""
    remaining = _end.get() - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("the time limit is over")
    return remaining if timeout is None else min(timeout, remaining)
