"""Commands to Redis through a client of redis-py, each repeated until a deadline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from jazzmine._compat.async_concurrency import sleep
from jazzmine._compat.async_microbatch import MicroBatcher
from jazzmine._compat.async_redis import AnyRedis, AnyTimeoutError, time_limit
from jazzmine.backends.redis.driver import Remedy, address_of, is_cluster, redis_driver, remedy_for
from jazzmine.backends.redis.keys import Script
from jazzmine.deadline import Deadline, backoff
from jazzmine.errors import ConfigurationError, StoreClosedError, StoreUnavailableError

__all__ = ["RedisClient"]


class RedisClient:
    """Sends commands through a client of redis-py, and repeats those that failed.

    Every command may be repeated: its connection may break before or after it took effect. Many
    commands at once share a few pipelines.

    Args:
        client: a client for one server, from Sentinel's `master_for`, or for a cluster.
        reply_timeout: how long to wait for a reply before a command is sent again, in s; None
            where the settings of the client limit that.
    """

    MAX_CONCURRENCY = 4

    def __init__(self, client: AnyRedis, reply_timeout: float | None) -> None:
        self._client: Any = client
        self._reply_timeout = reply_timeout or float("inf")
        self._closed = self._disconnecting = False
        # The pipelines of a cluster's client refuse scripts.
        most = 1_000_000 if is_cluster(client) else self.MAX_CONCURRENCY
        self._batcher = MicroBatcher[_Command](self._send, most, self._unavailable)
        known = redis_driver().exceptions
        self._failures = (known.RedisError, known.RedisClusterException, OSError, AnyTimeoutError)

    async def close(self, *, disconnect: bool) -> None:
        """Send no command any more, nor again; those under way raise `StoreClosedError`.

        Args:
            disconnect: whether to close the connections of the client, too.
        """
        self._closed, self._disconnecting = True, disconnect
        await self._disconnect()

    async def _disconnect(self) -> None:
        if self._disconnecting:
            await self._client.aclose()

    async def run(
        self,
        script: Script,
        keys: Sequence[str],
        arguments: Sequence[str | bytes | int],
        deadline: Deadline,
    ) -> Any:
        """Run a script where its keys are, and return its reply, with bytes for text."""
        operands = (len(keys), *keys, *arguments)
        try:
            return await self.execute(deadline, "EVALSHA", script.digest, *operands)
        except redis_driver().exceptions.NoScriptError:
            return await self.execute(deadline, "EVAL", script.text, *operands)

    async def execute(self, deadline: Deadline, name: str, *arguments: str | bytes | int) -> Any:
        """Send a command, and return its reply, with bytes for text."""
        # The client would encode text as its owner wants it.
        encoded = [each.encode() if isinstance(each, str) else each for each in arguments]
        command = _Command((name, *encoded))
        await self._batcher.run(command, deadline)
        if isinstance(command.reply, Exception):
            raise command.reply
        return command.reply

    async def _send(self, commands: Sequence[_Command], deadline: Deadline) -> None:
        await self.retry_until(deadline, lambda: self._try(commands))

    async def _try(self, commands: Sequence[_Command]) -> None:
        if len(commands) == 1:
            execute = self._client.execute_command
            commands[0].reply = await execute(*commands[0].parts, NEVER_DECODE=True)
            return
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command.parts, NEVER_DECODE=True)
        replies = await pipeline.execute(raise_on_error=False)
        for command, command.reply in zip(commands, replies, strict=True):
            failed = isinstance(command.reply, Exception)
            if failed and remedy_for(command.reply) is not Remedy.RAISE:
                raise command.reply

    async def needs_cluster(self, deadline: Deadline) -> bool:
        """Whether the server is a node of a cluster, and the client is not made for one.

        A server that refuses is asked only once.
        """
        if is_cluster(self._client):
            await self.ping(deadline)
            return False
        ask = self._client.execute_command
        try:
            info = await self.retry_until(deadline, lambda: ask("INFO", "cluster"), repeat=False)
        except redis_driver().ResponseError:  # the user may not ask
            return False
        return bool(info.get("cluster_enabled"))

    async def ping(self, deadline: Deadline) -> None:
        """Ask a server, in a cluster any of them, for a sign of life."""
        options = {"target_nodes": "random"} if is_cluster(self._client) else {}
        execute = self._client.execute_command
        await self.retry_until(deadline, lambda: execute("PING", **options))

    async def keys(self, pattern: str, deadline: Deadline) -> set[bytes | str]:
        """Return the keys that match a pattern, on all servers."""
        found: set[bytes | str] = await self.retry_until(
            deadline, lambda: self._scan(pattern), float("inf")
        )
        return found

    async def _scan(self, pattern: str) -> set[bytes | str]:
        return {key async for key in self._client.scan_iter(match=pattern, count=1000)}

    async def read_field(
        self, name: str, keys: Sequence[str], deadline: Deadline
    ) -> list[bytes | None]:
        """Return a field of each of several hashes; None for what has no such field."""
        commands = [_Command(("HGET", key.encode(), name.encode())) for key in keys]
        # In a cluster the keys lie on several nodes.
        together = 1 if is_cluster(self._client) else len(commands)
        for first in range(0, len(commands), together):
            with suppress(redis_driver().ResponseError):
                await self._send(commands[first : first + together], deadline)
        replies = [command.reply for command in commands]
        return [reply if isinstance(reply, bytes) else None for reply in replies]

    async def retry_until(
        self,
        deadline: Deadline,
        attempt: Callable[[], Any],
        timeout: float = 0.0,
        *,
        repeat: bool = True,
    ) -> Any:
        """Make attempts with redis-py, with growing pauses, until one succeeds.

        Args:
            timeout: how long an attempt may take, in s, if not as long as a command.
            repeat: whether to try again where no connection can be had.

        Raises:
            StoreUnavailableError: there was no reply before the deadline.
            StoreClosedError: `close` was called before there was a reply.
            ResponseError: the server's answer is an error.
        """
        pauses = None
        while not self._closed:
            try:
                async with time_limit(min(timeout or self._reply_timeout, deadline.remaining())):
                    return await attempt()
            except self._failures as error:
                if self._closed:
                    break
                pauses = pauses or backoff(0.01, 1.0)
                remedy, pause = remedy_for(error), next(pauses)
                if remedy is Remedy.RAISE:
                    raise
                if remedy is Remedy.RECONNECT:
                    await self._reconnect(error)
                refused = not repeat and isinstance(error, redis_driver().ConnectionError)
                if refused or remedy is Remedy.GIVE_UP or deadline.remaining() <= pause:
                    raise self._unavailable(error) from error
            finally:
                if self._closed:  # a client opens connections again after it was closed
                    await self._disconnect()
            await sleep(pause)
        raise StoreClosedError("this store was closed meanwhile; open another with initialize()")

    async def _reconnect(self, error: BaseException) -> None:
        failed = getattr(error, "last_failed_node_name", None)
        with suppress(*self._failures):
            async with time_limit(0.25):
                if not is_cluster(self._client):
                    # The idle connections may lead to a server that is gone.
                    await self._client.connection_pool.disconnect(inuse_connections=False)
                elif failed is not None:
                    # The next call would ask any node for the others, the failed one perhaps.
                    await self._client.initialize(last_failed_node_name=failed)

    def _unavailable(self, error: BaseException | None = None) -> Exception:
        where = f"Redis at {address_of(self._client)}"
        if isinstance(error, redis_driver().exceptions.AskError):  # MovedError is one
            return ConfigurationError(f"{where} is a node of a cluster: pass a RedisCluster client")
        return StoreUnavailableError(f"{where} is not available: {error or 'no reply in time'}")


@dataclass(slots=True)
class _Command:
    """A command, and its reply when that is there."""

    parts: tuple[str | bytes | int, ...]
    reply: Any = None
