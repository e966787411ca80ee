"""Commands to Redis through a client of redis-py, each repeated until a deadline."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from jazzmine._compat.sync_background import sleep
from jazzmine._compat.sync_redis import AnyRedis, AnyTimeoutError, Commands, time_limit
from jazzmine.backends.redis.driver import Remedy, address_of, is_cluster, redis_driver, remedy_for
from jazzmine.backends.redis.keys import Script
from jazzmine.deadline import Deadline
from jazzmine.errors import ConfigurationError, StoreClosedError, StoreUnavailableError

__all__ = ["RedisClient", "backoff"]


class RedisClient:
    """Sends commands through a client of redis-py, and repeats those that failed.

    Every command may be repeated: its connection may break before or after it took effect.

    Args:
        client: a client for one server, from Sentinel's `master_for`, or for a cluster.
        patience: how long to wait for a reply before a command is sent again, in s; None where
            the settings of the client limit that.
    """

    def __init__(self, client: AnyRedis, patience: float | None) -> None:
        self._client: Any = client
        self._patience = patience or float("inf")
        self._commands = Commands(client, self._patience)
        self._closed = self._disconnecting = False
        known = redis_driver().exceptions
        self._failures = (known.RedisError, known.RedisClusterException, OSError, AnyTimeoutError)

    def close(self, *, disconnect: bool) -> None:
        """Send no command any more, nor again; those under way raise `StoreClosedError`.

        Args:
            disconnect: whether to close the connections of the client, too.
        """
        self._closed, self._disconnecting = True, disconnect
        self._disconnect()

    def _disconnect(self) -> None:
        if self._disconnecting:
            self._client.close()

    def run(
        self,
        script: Script,
        keys: Sequence[str],
        arguments: Sequence[str | bytes | int],
        deadline: Deadline,
    ) -> Any:
        """Run a script where its keys are, and return its reply, with bytes for text."""
        # The client encodes text as its owner wants it.
        parts = [part.encode() if isinstance(part, str) else part for part in (*keys, *arguments)]
        command = ("EVALSHA", script.digest, len(keys), *parts)
        try:
            return self._run(deadline, *command)
        except redis_driver().exceptions.NoScriptError:
            return self._run(deadline, "EVAL", script.text, *command[2:])

    def _run(self, deadline: Deadline, *command: Any) -> Any:
        return self.retry_until(deadline, lambda: self._commands.execute(deadline, *command))

    def needs_cluster(self, deadline: Deadline) -> bool:
        """Whether the server is a node of a cluster, and the client is not made for one.

        A server that refuses is asked only once.
        """
        if is_cluster(self._client):
            self.ping(deadline)
            return False
        ask = self._client.execute_command
        try:
            info = self.retry_until(deadline, lambda: ask("INFO", "cluster"), repeat=False)
        except redis_driver().ResponseError:  # the user may not ask
            return False
        return bool(info.get("cluster_enabled"))

    def ping(self, deadline: Deadline) -> None:
        """Ask a server, in a cluster any of them, for a sign of life."""
        options = {"target_nodes": "random"} if is_cluster(self._client) else {}
        execute = self._client.execute_command
        self.retry_until(deadline, lambda: execute("PING", **options))

    def count(self, pattern: str, deadline: Deadline) -> int:
        """Return how many keys match a pattern, on all servers."""
        return int(self.retry_until(deadline, lambda: self._scan(pattern), float("inf")))

    def _scan(self, pattern: str) -> int:
        return len({key for key in self._client.scan_iter(match=pattern, count=1000)})

    def retry_until(
        self,
        deadline: Deadline,
        attempt: Callable[[], Any],
        patience: float = 0.0,
        *,
        repeat: bool = True,
    ) -> Any:
        """Make attempts with redis-py, with growing pauses, until one succeeds.

        Args:
            patience: how long an attempt may take, in s, if not as long as a command.
            repeat: whether to try again where no connection can be had.

        Raises:
            StoreUnavailableError: there was no reply before the deadline.
            StoreClosedError: `close` was called before there was a reply.
            ResponseError: the server's answer is an error.
        """
        pauses: Iterator[float] | None = None
        while not self._closed:
            try:
                with time_limit(min(patience or self._patience, deadline.remaining())):
                    return attempt()
            except self._failures as error:
                if self._closed:
                    break
                pauses = pauses or backoff(0.01, 1.0)
                remedy, pause = remedy_for(error), next(pauses)
                if remedy is Remedy.RAISE:
                    raise
                if remedy is Remedy.RECONNECT:
                    self._reconnect(error)
                refused = not repeat and isinstance(error, redis_driver().ConnectionError)
                if refused or remedy is Remedy.GIVE_UP or deadline.remaining() <= pause:
                    raise self._unavailable(error) from error
            finally:
                if self._closed:  # a client opens connections again after it was closed
                    self._disconnect()
            sleep(pause)
        raise StoreClosedError("this store was closed meanwhile; open another with initialize()")

    def _reconnect(self, error: BaseException) -> None:
        failed = getattr(error, "last_failed_node_name", None)
        with suppress(*self._failures):
            with time_limit(0.25):
                if not is_cluster(self._client):
                    # The idle connections may lead to a server that is gone.
                    self._client.connection_pool.disconnect(inuse_connections=False)
                elif failed is not None:
                    # The next call would ask any node for the others, the failed one perhaps.
                    self._client.initialize(last_failed_node_name=failed)

    def _unavailable(self, error: BaseException) -> Exception:
        where = f"Redis at {address_of(self._client)}"
        if isinstance(error, redis_driver().exceptions.AskError):  # MovedError is one
            return ConfigurationError(f"{where} is a node of a cluster: pass a RedisCluster client")
        reason = str(error) or "no reply in time"
        return StoreUnavailableError(f"{where} is not available: {reason}")


def backoff(first: float, most: float) -> Iterator[float]:
    """Yield pauses, in s, that grow from about `first` to about `most`, with jitter."""
    pause = first
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, most)
