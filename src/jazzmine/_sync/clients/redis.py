"""Commands to Redis through a client of redis-py, each repeated until a deadline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from jazzmine._sync.keyed_locks import KeyedLocks
from jazzmine._compat.sync_redis import AnyRedis, AnyTimeoutError, time_limit
from jazzmine._compat.concurrency import sync_sleep as sleep
from jazzmine.backends.redis.driver import (
    Remedy,
    is_cluster,
    is_of_another_type,
    is_unknown_script,
    max_connections,
    redis_driver,
    remedy_for,
    translated,
)
from jazzmine.backends.redis.keys import Script
from jazzmine.deadline import Deadline, backoff
from jazzmine.errors import StoreClosedError, StoreUnavailableError

__all__ = ["RedisClient"]

# An attempt gets the time that its bytes need on a network of so many bytes in a second.
_SLOWEST_NETWORK = 100_000

# Of how many keys a field is read at once.
_KEYS_AT_ONCE = 500


class RedisClient:
    """Sends commands through a client of redis-py, and repeats those that failed.

    Every command may be repeated: its connection may break before or after it took effect. Only so
    many are under way at once that each gets its part of a slow network.

    Args:
        client: a client for one server, from Sentinel's `master_for`, or for a cluster.
        attempt_seconds: how long the first attempt of a small command may take, in s; None where
            the settings of the client limit that. The next one after a time-out gets twice as long,
            so that a large reply over a slow network arrives.
    """

    #: How many commands are under way at once; each has a connection.
    CONCURRENCY: ClassVar[int] = 16

    def __init__(self, client: AnyRedis, attempt_seconds: float | None) -> None:
        self._client: Any = client
        self._attempt_seconds = attempt_seconds or float("inf")
        self._closed = self._disconnecting = False
        # Those for a silent node of a cluster would keep others from the nodes that answer.
        most = sys.maxsize if is_cluster(client) else min(self.CONCURRENCY, max_connections(client))
        self._places: KeyedLocks[object] = KeyedLocks(most)
        known = redis_driver().exceptions
        self._time_outs = (known.TimeoutError, AnyTimeoutError)
        # redis-py stumbles over the last four while nodes of a cluster change or are closed.
        stumbles = (AttributeError, LookupError, TypeError, ValueError)
        self._failures = (
            *(known.RedisError, known.RedisClusterException, OSError, AnyTimeoutError),
            *stumbles,
        )

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
            if is_cluster(self._client):
                # A client that was closed before would leave those that were opened since.
                self._client.nodes_manager.close()

    def run(
        self,
        script: Script,
        keys: Sequence[bytes],
        arguments: Sequence[str | bytes | int],
        deadline: Deadline,
    ) -> Any:
        """Run a script where its keys are, and return its reply, with bytes for text."""
        operands = (len(keys), *keys, *arguments)
        try:
            return self.execute(deadline, "EVALSHA", script.digest, *operands)
        except StoreUnavailableError as error:
            if not is_unknown_script(error.__cause__):
                raise
        return self.execute(deadline, "EVAL", script.text, *operands)

    def read(self, deadline: Deadline, name: str, *arguments: str | bytes) -> Any:
        """Send a command that reads a key, and return its reply; None for a key of another type."""
        try:
            return self.execute(deadline, name, *arguments)
        except StoreUnavailableError as error:
            if not is_of_another_type(error.__cause__):
                raise
            return None

    def execute(self, deadline: Deadline, name: str, *arguments: str | bytes | int) -> Any:
        """Send a command, and return its reply, with bytes for text.

        Args:
            name: in lower case if the server is to be asked, and not the cache of the client.
        """
        # The client would encode text as its owner wants it.
        encoded = [each if isinstance(each, bytes) else str(each).encode() for each in arguments]
        command, send = (name, *encoded), self._client.execute_command
        seconds = self._attempt_seconds + sum(map(len, encoded)) / _SLOWEST_NETWORK
        return self.retry_until(deadline, lambda: send(*command, NEVER_DECODE=True), seconds)

    def needs_cluster(self, deadline: Deadline) -> bool:
        """Whether the server is a node of a cluster, and the client is not made for one.

        A server that refuses is asked only once.
        """
        if is_cluster(self._client):
            self.ping(deadline)
            return False
        ask, seconds = self._client.execute_command, self._attempt_seconds
        try:
            info = self.retry_until(
                deadline, lambda: ask("INFO", "cluster"), seconds, repeat=False
            )
        except StoreUnavailableError as error:
            if not isinstance(error.__cause__, redis_driver().ResponseError):
                raise
            return False  # the user may not ask
        return bool(info.get("cluster_enabled"))

    def ping(self, deadline: Deadline) -> None:
        """Ask a server, in a cluster any of them, for a sign of life."""
        options = {"target_nodes": "random"} if is_cluster(self._client) else {}
        send = self._client.execute_command
        self.retry_until(deadline, lambda: send("PING", **options), self._attempt_seconds)

    def keys(self, pattern: str, deadline: Deadline) -> set[bytes]:
        """Return the keys that match a pattern, on all servers."""
        found: set[bytes] = self.retry_until(
            deadline, lambda: self._scan(pattern), float("inf")
        )
        return found

    def _scan(self, pattern: str) -> set[bytes]:
        scan = self._client.scan_iter(match=pattern, count=1000, NEVER_DECODE=True)
        return {key for key in scan}

    def read_field(
        self, name: str, keys: Sequence[bytes], deadline: Deadline
    ) -> list[bytes | None]:
        """Return a field of each of several hashes; None for what has no such field."""
        values: list[bytes | None] = []
        for first in range(0, len(keys), _KEYS_AT_ONCE):
            attempt = partial(self._read_field, name, keys[first : first + _KEYS_AT_ONCE])
            values += self.retry_until(deadline, attempt, float("inf"))
        return values

    def _read_field(self, name: str, keys: Sequence[bytes]) -> list[bytes | None]:
        pipeline = self._client.pipeline(transaction=False)
        for key in keys:
            pipeline.execute_command("HGET", key, name.encode(), NEVER_DECODE=True)
        replies = pipeline.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, Exception) and not is_of_another_type(reply):
                raise reply
        return [reply if isinstance(reply, bytes) else None for reply in replies]

    def retry_until(
        self,
        deadline: Deadline,
        attempt: Callable[[], Any],
        seconds: float,
        *,
        repeat: bool = True,
    ) -> Any:
        """Make attempts with redis-py, with growing pauses, until one succeeds.

        Args:
            seconds: how long the first attempt may take, in s.
            repeat: whether to try again where no connection can be had.

        Raises:
            StoreUnavailableError: there was no reply before the deadline, or the reply is an
                error, which is the `__cause__` then.
            ConfigurationError: the server has no such database, or is a node of a cluster.
            StoreClosedError: `close` was called before there was a reply.
        """
        known, pauses = redis_driver().exceptions, None
        while not self._closed:
            call = object()
            try:
                if not self._places.acquire("", call, deadline.remaining()):
                    raise known.MaxConnectionsError("no connection was free in time")
                with time_limit(min(seconds, deadline.remaining())):
                    return attempt()
            except self._failures as error:
                if self._closed:
                    break
                remedy = remedy_for(error)
                if remedy is Remedy.RECONNECT:
                    self._reconnect(error)
                if isinstance(error, self._time_outs):
                    seconds *= 2
                # A client that may open no more connections has a free one in a moment.
                pauses = pauses or backoff(*((0.001, 0.05) if remedy is Remedy.WAIT else (0.01, 1)))
                pause = next(pauses)
                refused = not repeat and isinstance(error, known.ConnectionError)
                if refused or remedy is Remedy.GIVE_UP or deadline.remaining() <= pause:
                    raise translated(error, self._client) from error
            finally:
                self._places.release("", call)
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
                elif isinstance(error, AnyTimeoutError):
                    # The client itself has not noticed that a node is silent.
                    self._client.nodes_manager.initialize()
