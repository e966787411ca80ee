"""Connections to Redis in the blocking world."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from jazzmine._compat.redis_driver import Dialer, dialer_of, packed, redis_driver

if TYPE_CHECKING:
    import redis

__all__ = ["RedisClient", "Wire", "client_at", "client_dialer", "close_client"]

RedisClient: TypeAlias = "redis.Redis | redis.RedisCluster"


def client_dialer(client: Any) -> Dialer:
    """Find out how a client connects, alone, through Sentinel or to a cluster.

    Raises:
        TypeError: it is no client of this world.
    """
    driver = redis_driver()
    if isinstance(client, (driver.Redis, driver.RedisCluster)):
        return dialer_of(client)
    if type(client).__module__.startswith("redis.asyncio"):
        raise TypeError("a store with plain calls takes a client of redis, not of redis.asyncio")
    raise TypeError(f"redis_client must be a client of redis, not a {type(client).__name__}")


def client_at(url: str) -> RedisClient:
    """Return a client of the server with this URL, without connecting to it.

    Raises:
        ValueError: the URL is malformed.
    """
    client: RedisClient = redis_driver().Redis.from_url(url)
    return client


def close_client(client: RedisClient) -> None:
    """Release what a client holds."""
    client.close()


class Wire:
    """One connection, for one command after the other; after any error but an answer, of no use.

    Args:
        connection: a connection of the driver's.
    """

    __slots__ = ("_connection", "_timeout")

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._timeout = 0.0

    def ask(self, command: Sequence[str | bytes | int], timeout: float) -> Any:
        """Send a command and return the reply, bytes where it is text.

        Raises:
            TimeoutError: there was no reply within `timeout` s.
            RedisError, OSError: the connection broke, or (ResponseError) the server says no.
        """
        connection = self._connection
        if timeout != self._timeout:
            self._limit(timeout)
        connection.send_packed_command([packed(command)], check_health=False)
        return connection.read_response(disable_decoding=True)

    def hear(self, timeout: float) -> Any:
        """Return the next message of a channel, or None if there was none within `timeout` s."""
        if not self._connection.can_read(timeout=timeout):
            return None
        return self._connection.read_response(disable_decoding=True)

    def close(self) -> None:
        """Hang up, without waiting for anybody."""
        self._timeout = 0.0
        self._connection.disconnect()

    def _limit(self, timeout: float) -> None:
        """Let each wait for the network last this long at most, connected or not."""
        connection = self._connection
        connection.socket_timeout = connection.socket_connect_timeout = timeout
        if not self._timeout:
            due = time.monotonic() + timeout
            connection.connect()
            timeout = max(due - time.monotonic(), 0.001)
        connection._sock.settimeout(timeout)
        self._timeout = timeout
