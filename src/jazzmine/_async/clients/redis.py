"""Commands to Redis through a client of redis-py, repeated by its `Retry` until a deadline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from jazzmine._compat.redis import AsyncAnyRedis as AnyRedis
from jazzmine._compat.redis import async_pool as connection_pool
from jazzmine._compat.redis import async_redis as redis_module
from jazzmine._compat.redis import async_time_limit as time_limit
from jazzmine.backends.redis.driver import (
    connection_settings,
    failures,
    is_cluster,
    is_transient,
    redis_driver,
    translated,
)
from jazzmine.backends.redis.keys import Script
from jazzmine.deadline import Deadline, call_deadline
from jazzmine.errors import StoreClosedError, StoreUnavailableError

# How many connections a store's own client opens.
_CONNECTIONS = 16

# Of how many keys a field is read at once.
_KEYS_AT_ONCE = 500


class RedisClient:
    """Sends commands through a client of redis-py, and repeats those that failed.

    Every command may be repeated: its connection may break before or after it took effect.

    Args:
        client: a client for one server, from Sentinel's `master_for`, or for a cluster.
        timeout: the longest time, in s, for opening it and for a sign of life.
        url: what the client was made of, if it is closed in the end.
        attempt_seconds: how long a server is waited for at once, in s; so long before the deadline
            nothing is repeated any more. 0 is as long as the client waits.

    Raises:
        TypeError: it is not a client of redis-py for this API.
    """

    def __init__(
        self, client: AnyRedis, timeout: float, url: str = "", attempt_seconds: float = 0.0
    ) -> None:
        module = redis_module()
        if not isinstance(client, (module.Redis, module.RedisCluster)):
            raise TypeError(
                f"redis_client must be a {AnyRedis}, not {type(client)!r}; initialize() takes a URL"
            )
        self._client: Any = client
        self._timeout = timeout
        self._url = url
        self._attempt_seconds = attempt_seconds
        pauses = redis_driver().backoff.EqualJitterBackoff(cap=0.25, base=0.005)
        self._retry = module.retry.Retry(pauses, -1, failures())
        self._slots: Any = nullcontext()
        self._opening = self._closed = False

    @classmethod
    def from_url(cls, url: str, timeout: float, attempt_seconds: float) -> RedisClient:
        """Return a client of its own; raise an error of redis-py or Python for a wrong URL."""
        pool, slots = connection_pool(url, _CONNECTIONS, connection_settings(attempt_seconds))
        # Only a connection, which is not used, notices an unknown option of a URL.
        pool.connection_class(**pool.connection_kwargs)
        client = cls(redis_module().Redis.from_pool(pool), timeout, url, attempt_seconds)
        client._slots = slots
        return client

    async def pending(self) -> list[str]:
        """Return nothing: Redis has no tables."""
        return []

    async def open(self) -> None:
        """Connect, with a client of the whole cluster if the URL names a node of one."""
        # A server that refuses is asked only once. After a fork the cluster is known already.
        self._opening = bool(self._url) and not is_cluster(self._client)
        try:
            if self._opening and await self._is_node_of_cluster():
                await self._client.aclose()
                settings = connection_settings(self._attempt_seconds)
                connect = partial(redis_module().RedisCluster.from_url, self._url, **settings)
                self._client = await self._repeated(call_deadline(self._timeout), connect)
                self._slots = nullcontext()  # it has pools of its own
            await self.ping()
        except BaseException:
            await self._close_own()
            raise
        self._opening = False

    async def _is_node_of_cluster(self) -> bool:
        try:
            info = await self.execute(call_deadline(self._timeout), (), "INFO", "cluster")
        except StoreUnavailableError as error:
            if not isinstance(error.__cause__, redis_driver().ResponseError):
                raise
            return False  # the user may not ask
        return bool(info["cluster_enabled"])

    async def close(self) -> None:
        """Send no command any more, nor again; those under way raise `StoreClosedError`."""
        self._closed = True
        await self._close_own()

    async def _close_own(self) -> None:
        if self._url:
            await self._client.aclose()

    async def run(
        self,
        script: Script,
        keys: Sequence[bytes],
        arguments: Sequence[str | bytes | int],
        deadline: Deadline,
    ) -> Any:
        """Run a script where its keys are, and return its reply, with bytes for text."""
        operands = (len(keys), *keys, *arguments)
        send = partial(self._client.execute_command, "EVALSHA", script.digest, *operands)
        try:
            return await self._repeated(deadline, partial(send, NEVER_DECODE=True), keys)
        except StoreUnavailableError as error:
            if not isinstance(error.__cause__, redis_driver().exceptions.NoScriptError):
                raise
        return await self.execute(deadline, keys, "EVAL", script.text, *operands)

    async def execute(self, deadline: Deadline, keys: Sequence[bytes], *command: Any) -> Any:
        """Send a command about some keys, and return its reply, with bytes for text."""
        send = partial(self._client.execute_command, *command, NEVER_DECODE=True)
        return await self._repeated(deadline, send, keys)

    async def ping(self) -> None:
        """Ask a server, in a cluster any of them, for a sign of life."""
        options = {"target_nodes": "random"} if is_cluster(self._client) else {}
        command = partial(self._client.execute_command, "PING", **options)
        await self._repeated(call_deadline(self._timeout), command)

    async def keys(self, pattern: str, deadline: Deadline, limit: int | None = None) -> list[bytes]:
        """Return the keys of hashes that match a pattern, on all servers; `limit` at most."""

        async def scan() -> list[bytes]:
            keys: dict[bytes, None] = {}  # some may be found twice
            options = {"match": pattern, "count": 1000, "_type": "HASH", "NEVER_DECODE": True}
            async for key in self._client.scan_iter(**options):
                if len(keys) == limit:
                    break
                keys[key] = None
            return list(keys)

        found: list[bytes] = await self._repeated(deadline, scan, is_long=True)
        return found

    async def read_field(
        self, name: str, keys: Sequence[bytes], deadline: Deadline
    ) -> list[bytes | None]:
        """Return a field of each of several hashes; None for what has no such field."""

        async def read(some: Sequence[bytes]) -> Any:
            pipeline = self._client.pipeline(transaction=False)
            for key in some:
                pipeline.execute_command("HGET", key, name.encode(), NEVER_DECODE=True)
            return await pipeline.execute()

        values: list[bytes | None] = []
        for first in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[first : first + _KEYS_AT_ONCE]
            values += await self._repeated(deadline, partial(read, some), is_long=True)
        return values

    async def _repeated(
        self,
        deadline: Deadline,
        request: Callable[[], Any],
        keys: Sequence[bytes] = (),
        *,
        is_long: bool = False,
    ) -> Any:
        """Make attempts with redis-py, with growing pauses, until one succeeds.

        What redis-py raises is the `__cause__` of the error.

        Args:
            keys: what the request is about, for errors.
            is_long: whether an attempt needs more than one reply.
        """

        def is_retryable(error: Exception) -> bool:
            if self._closed or deadline.remaining() <= self._attempt_seconds:
                return False
            refused = self._opening and isinstance(error, redis_driver().ConnectionError)
            return is_transient(error) and not refused

        async def attempt() -> Any:
            limit = deadline.remaining()
            if self._attempt_seconds and not is_long:
                limit = min(limit, self._attempt_seconds)
            async with time_limit(limit), self._slots:
                return await request()

        if self._closed:
            raise _closed_meanwhile()
        try:
            return await self._retry.call_with_retry(attempt, self._disconnect, is_retryable)
        except Exception as error:
            if self._closed:  # a client of a cluster that is closed meanwhile fails in other ways
                raise _closed_meanwhile() from error
            if isinstance(error, failures()):
                raise translated(error, self._client, keys) from error
            raise
        finally:
            if self._closed:  # a client opens connections again after it was closed
                await self._close_own()

    async def _disconnect(self, error: Exception) -> None:
        """Close the idle connections, which may lead to a server that is gone."""
        if self._url and not is_cluster(self._client):
            await self._client.connection_pool.disconnect(inuse_connections=False)


def _closed_meanwhile() -> StoreClosedError:
    return StoreClosedError("this store was closed meanwhile; open another with initialize()")
