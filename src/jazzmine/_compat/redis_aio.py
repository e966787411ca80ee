"""Connections to Redis in the awaitable world."""

from __future__ import annotations

import asyncio
import math
import sys
from asyncio import TimeoutError as AnyTimeoutError  # another than the built-in before 3.11
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from jazzmine._compat.redis_driver import Dialer, dialer_of, packed, redis_driver

if sys.version_info >= (3, 11):
    from asyncio import timeout as time_limit
else:
    from async_timeout import timeout as time_limit

if TYPE_CHECKING:
    import redis.asyncio

__all__ = ["RedisClient", "Wire", "client_at", "client_dialer", "close_client"]

RedisClient: TypeAlias = "redis.asyncio.Redis | redis.asyncio.RedisCluster"


def client_dialer(client: Any) -> Dialer:
    """Find out how a client connects, alone, through Sentinel or to a cluster.

    Raises:
        TypeError: it is no client of this world.
    """
    driver = redis_driver()
    import redis.asyncio

    if isinstance(client, (redis.asyncio.Redis, redis.asyncio.RedisCluster)):
        return dialer_of(client)
    if isinstance(client, (driver.Redis, driver.RedisCluster)):
        raise TypeError("a store with awaited calls takes a client of redis.asyncio, not of redis")
    raise TypeError(
        f"redis_client must be a client of redis.asyncio, not a {type(client).__name__}"
    )


def client_at(url: str) -> RedisClient:
    """Return a client of the server with this URL, without connecting to it.

    Raises:
        ValueError: the URL is malformed.
    """
    redis_driver()
    from redis.asyncio import Redis

    return Redis.from_url(url)


async def close_client(client: RedisClient) -> None:
    """Release what a client holds."""
    await client.aclose()


class Wire:
    """One connection, for one command after the other; after any error but an answer, of no use.

    Args:
        connection: a connection of the driver's.
    """

    __slots__ = ("_connection", "_due", "_hanging_up", "_live", "_timer")

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._live = False
        self._due = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._hanging_up: asyncio.Task[None] | None = None

    async def ask(self, command: Sequence[str | bytes | int], timeout: float) -> Any:
        """Send a command and return the reply, bytes where it is text.

        Raises:
            TimeoutError: there was no reply within `timeout` s.
            RedisError, OSError: the connection broke, or (ResponseError) the server says no.
        """
        connection, due = self._connection, asyncio.get_running_loop().time() + timeout
        if not self._live or self._hanging_up is not None:
            await self._connect(timeout)
        self._expect_by(due)
        try:
            await connection.send_packed_command(packed(command), check_health=False)
            return await connection.read_response(disable_decoding=True)
        except Exception:
            if self._hanging_up is None:
                raise
            raise TimeoutError(f"no reply within {timeout:.3g} s") from None
        finally:
            self._due = math.inf

    async def hear(self, timeout: float) -> Any:
        """Return the next message of a channel, or None if there was none within `timeout` s."""
        return await self._connection.read_response(disable_decoding=True, timeout=timeout)

    async def close(self) -> None:
        """Hang up, without waiting for anybody."""
        self._live = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self._connection.disconnect(nowait=True)

    async def _connect(self, timeout: float) -> None:
        try:
            async with time_limit(timeout):
                await self._connection.connect()
        except AnyTimeoutError:
            raise TimeoutError(f"no connection within {timeout:.3g} s") from None
        self._live = True
        self._hanging_up = None

    def _expect_by(self, due: float) -> None:
        # A timer for every command, set and cancelled, is a tenth of what the command costs; this
        # one stays, and looks again when the command that it was set for has had its reply.
        self._due = due
        if self._timer is not None and due < self._timer.when():
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(due, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        if self._due <= loop.time():
            self._hanging_up = loop.create_task(self._connection.disconnect(nowait=True))
        elif self._due < math.inf:
            self._timer = loop.call_at(self._due, self._look)
