"""Commands to Redis through a client of redis-py, each repeated until a deadline."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from jazzmine._compat.deadline import Deadline
from jazzmine._compat.redis_blocking import AnyRedis, AnyTimeoutError, time_limit
from jazzmine._compat.redis_driver import (
    Remedy,
    address_of,
    is_cluster,
    redis_driver,
    remedy_for,
)
from jazzmine._compat.upkeep_blocking import sleep
from jazzmine.errors import ConfigurationError, StoreUnavailableError
from jazzmine.layouts.redis import Script

__all__ = ["RedisClient", "backoff"]

Command = Sequence["str | bytes | int"]


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
        self._failures = (redis_driver().RedisError, OSError, AnyTimeoutError)

    def needs_cluster(self, deadline: Deadline) -> bool:
        """Whether the server is a node of a cluster, which this client is not made for.

        A server that refuses is asked only once.

        Raises:
            StoreUnavailableError: the server can't be reached.
        """
        try:
            if is_cluster(self._client):
                self.ping(deadline)
                return False
            info = self.execute(("INFO", "cluster"), deadline, repeat=False)
        except redis_driver().ResponseError:  # the user may not ask
            return False
        return bool(info.get("cluster_enabled"))

    def run(
        self, script: Script, keys: Sequence[str], arguments: Command, deadline: Deadline
    ) -> Any:
        """Run a script where its keys are, and return its reply, with bytes for text."""
        command = ("EVALSHA", script.digest, len(keys), *keys, *arguments)
        try:
            return self.execute(command, deadline, NEVER_DECODE=True)
        except redis_driver().ResponseError as error:
            if remedy_for(error) is not Remedy.LOAD_SCRIPT:
                raise
        command = ("EVAL", script.text, *command[2:])
        return self.execute(command, deadline, NEVER_DECODE=True)

    def ping(self, deadline: Deadline) -> None:
        """Ask a server, in a cluster any of them, for a sign of life."""
        where: dict[str, Any] = {"target_nodes": "random"} if is_cluster(self._client) else {}
        self.execute(("PING",), deadline, **where)

    def count(self, pattern: str, deadline: Deadline) -> int:
        """Return how many keys match a pattern, on all servers."""
        found: set[bytes] = set()
        for where in self._everywhere(deadline):
            cursor: Any = 0
            while True:
                command = ("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
                cursor, keys = self.execute(command, deadline, **where)
                found.update(keys)
                if isinstance(cursor, dict):  # by the name of the node
                    [cursor] = cursor.values()
                if not cursor:
                    break
        return len(found)

    def execute(
        self, command: Command, deadline: Deadline, *, repeat: bool = True, **options: Any
    ) -> Any:
        """Send a command, again if need be, and return the reply.

        Args:
            repeat: whether to repeat it.
            options: those of redis-py's `execute_command`.

        Raises:
            StoreUnavailableError: there was no reply before the deadline.
            ResponseError: the server's answer is an error.
        """
        name, *rest = command
        # The encoding of a client is for its owner's text.
        arguments = [part.encode() if isinstance(part, str) else part for part in rest]
        pauses = backoff(0.01, 1.0)
        while True:
            try:
                with time_limit(min(self._patience, deadline.remaining())):
                    return self._client.execute_command(name, *arguments, **options)
            except self._failures as error:
                remedy, pause = remedy_for(error), next(pauses)
                if remedy in (Remedy.RAISE, Remedy.LOAD_SCRIPT):
                    raise
                if remedy is Remedy.USE_CLUSTER:
                    raise ConfigurationError(
                        f"Redis at {address_of(self._client)} is a node of a cluster: the store"
                        " needs a RedisCluster client, or its URL"
                    ) from error
                if not repeat or remedy is Remedy.GIVE_UP or deadline.remaining() <= pause:
                    raise StoreUnavailableError(
                        f"Redis at {address_of(self._client)} is not available: {error}"
                    ) from error
                if remedy is Remedy.RECONNECT:
                    self._reconnect()
            sleep(pause)

    def _reconnect(self) -> None:
        """Close the idle connections: they may lead to a server that is gone."""
        if not is_cluster(self._client):  # which does it by itself
            try:
                with time_limit(0.1):
                    self._client.connection_pool.disconnect(inuse_connections=False)
            except self._failures:
                pass

    def _everywhere(self, deadline: Deadline) -> list[dict[str, Any]]:
        """Return the options that send a command to each server that holds keys."""
        if not is_cluster(self._client):
            return [{}]
        self.ping(deadline)  # the client may not know its nodes before
        return [{"target_nodes": node} for node in self._client.get_primaries()]


def backoff(first: float, most: float) -> Iterator[float]:
    """Yield pauses, in s, that grow from about `first` to about `most`, with jitter."""
    pause = first
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, most)
