"""The clients of redis-py for an event loop."""

from __future__ import annotations

import sys
from asyncio import TimeoutError as AnyTimeoutError  # another than the built-in before 3.11
from typing import TYPE_CHECKING, Any, TypeAlias

from jazzmine.backends.redis.driver import redis_driver

if sys.version_info >= (3, 11):
    from asyncio import timeout as time_limit
else:
    from async_timeout import timeout as time_limit

if TYPE_CHECKING:
    import redis.asyncio

__all__ = [
    "INTERRUPTIBLE",
    "AnyRedis",
    "AnyTimeoutError",
    "client_for",
    "cluster_for",
    "is_client",
    "time_limit",
]

# Whether `time_limit` ends a wait of any client, rather than of those of `client_for` alone.
INTERRUPTIBLE = True

AnyRedis: TypeAlias = "redis.asyncio.Redis | redis.asyncio.RedisCluster"


def is_client(client: Any) -> bool:
    """Whether this is an async client."""
    redis_driver()
    from redis.asyncio import Redis, RedisCluster

    return isinstance(client, (Redis, RedisCluster))


def client_for(url: str, patience: float) -> AnyRedis:
    """Return a client of one server that waits `patience` s for it; does not connect.

    Raises:
        ValueError, TypeError: the URL is malformed, or has an unknown option.
    """
    redis_driver()
    from redis.asyncio import Redis

    # The store limits the time of each command itself, for less than `socket_timeout` costs.
    client = Redis.from_url(url, protocol=2, socket_connect_timeout=patience, socket_timeout=None)
    pool: Any = client.connection_pool
    pool.connection_class = type("StoreConnection", (_StoreConnection, pool.connection_class), {})
    pool.make_connection()  # refuses an unknown option
    return client


async def cluster_for(url: str, patience: float) -> AnyRedis:
    """Return a client of the cluster that a server belongs to."""
    from redis.asyncio import RedisCluster

    return RedisCluster.from_url(url, socket_connect_timeout=patience, socket_timeout=patience)


<<<<<<< Updated upstream
class _Aborting:
=======
class Commands:
    """Sends commands at once; those for which there is no lane free are sent as one pipeline.

    Args:
        client: the client that sends them; one of a cluster has a lane for each.
        patience: how long a pipeline may take, in s.
    """

    LANES = 4
    MAX_SIZE = 100

    def __init__(self, client: AnyRedis, patience: float) -> None:
        self._client: Any = client
        self._patience = patience
        self._free: float = float("inf") if is_cluster(client) else self.LANES
        self._waiting: list[_Waiting] = []
        self._pipelines: set[asyncio.Task[None]] = set()

    async def execute(self, deadline: Deadline, *command: Any) -> Any:
        """Send a command, and return its reply with bytes for text."""
        if not self._free:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(_Waiting(command, deadline, future))
            return await future
        self._free -= 1
        try:
            return await self._client.execute_command(*command, NEVER_DECODE=True)
        finally:
            self._free += 1
            self._send_waiting()

    def _send_waiting(self) -> None:
        waiting = [each for each in self._waiting if not each.future.done()]
        self._waiting = waiting[self.MAX_SIZE :]
        if waiting:
            self._free -= 1
            task = asyncio.ensure_future(self._send(waiting[: self.MAX_SIZE]))
            self._pipelines.add(task)
            task.add_done_callback(self._pipelines.discard)

    async def _send(self, batch: list[_Waiting]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for each in batch:
            pipeline.execute_command(*each.command, NEVER_DECODE=True)
        latest = max(each.deadline for each in batch)
        try:
            async with time_limit(min(self._patience, latest.remaining())):
                replies = await pipeline.execute(raise_on_error=False)
        except Exception as error:
            replies = [error] * len(batch)
        for each, reply in zip(batch, replies, strict=True):
            if each.future.done():
                continue
            if isinstance(reply, Exception):
                each.future.set_exception(reply)
            else:
                each.future.set_result(reply)
        self._free += 1
        self._send_waiting()


class _Waiting(NamedTuple):
    command: tuple[Any, ...]
    deadline: Deadline
    future: asyncio.Future[Any]


class _StoreConnection:
>>>>>>> Stashed changes
    """A connection that drops what it has not sent yet when it is given up."""

    _writer: Any

    def pack_command(self, *command: Any) -> Any:
        # In redis-py, only sync connections let hiredis pack.
        if redis_driver().utils.HIREDIS_AVAILABLE:
            return redis_driver().connection.HiredisRespSerializer.pack(self, *command)
        return super().pack_command(*command)  # type: ignore[misc]

    async def disconnect(self, nowait: bool = False, **options: Any) -> None:
        if nowait and self._writer is not None:
            self._writer.transport.abort()
        await super().disconnect(nowait=nowait, **options)  # type: ignore[misc]
