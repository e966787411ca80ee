"""MongoDB servers for the tests: SecantusDB, which speaks the protocol on a real socket.

By default it is a replica set of one server with transactions. JAZZMINE_TEST_MONGODB, the URL of
a running server, replaces it: databases named jazzmine_test_… are created and dropped there. Tests
that depend on a difference between SecantusDB and MongoDB say so.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pymongo
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.servers.process import ServerProcess, free_port

_SECONDS_TO_DROP = 10


class Server(ServerProcess):
    """A server for the tests, in its own folder; a context manager.

    Args:
        options: the options of the program, such as `--standalone`.
    """

    def __init__(self, *options: str) -> None:
        super().__init__("SecantusDB", free_port())
        self._options = options

    @property
    def url(self) -> str:
        """The server's URL, without a database."""
        return f"mongodb://127.0.0.1:{self.port}"

    def start(self, *options: str) -> None:
        """Start the server on the same port and data as before, and wait until it answers."""
        program = str(Path(__file__).with_name("secantus_server.py"))
        command = [sys.executable, program, "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--storage-path", str(self._folder / "data")]
        command += ["--enable-test-commands", "--log-level", "WARNING", *self._options, *options]
        self._start(command, self._answers)

    def _answers(self) -> bool:
        try:
            with MongoClient[dict[str, Any]](self.url, serverSelectionTimeoutMS=500) as admin:
                admin.admin.command("hello")
        except PyMongoError:
            return False
        return True

    def stop(self) -> None:
        """Stop the server after it has written all data to the disk."""
        self._end(signal.SIGTERM)


_shared: list[Server] = []


@cache
def running(*options: str) -> Server:
    """Return the server with these options that all tests share; they must not leave it changed."""
    server = Server(*options).__enter__()
    atexit.register(server.__exit__, None, None, None)
    _shared.append(server)
    return server


def url(*options: str) -> str:
    """Return the URL of a server with transactions, without a database.

    Args:
        options: those of the server; the one that JAZZMINE_TEST_MONGODB names has its own.
    """
    return os.environ.get("JAZZMINE_TEST_MONGODB") or running(*options).url


@cache
def client(uri: str) -> MongoClient[dict[str, Any]]:
    """Return a client for tests that inspect a server."""
    beside: MongoClient[dict[str, Any]] = MongoClient(uri)
    atexit.register(beside.close)
    return beside


def fail(uri: str, commands: list[str], mode: Any, **how: Any) -> None:
    """Make a server fail commands, in a mode of MongoDB's fail points.

    https://github.com/mongodb/mongo/wiki/The-%22failCommand%22-fail-point
    """
    data = {"failCommands": commands, **how}
    client(uri).admin.command("configureFailPoint", "failCommand", mode=mode, data=data)


@contextmanager
def database(uri: str | None = None) -> Iterator[dict[str, object]]:
    """Create an empty database for a block; the value is the configuration of a store."""
    uri = uri or url()
    name = f"jazzmine_test_{uuid4().hex}"
    try:
        yield {"storage": "mongodb", "uri": uri, "db": name}
    finally:
        _drop(uri, name)


def _drop(uri: str, name: str) -> None:
    """Drop a database.

    SecantusDB may wait for ever for a transaction of a client that is gone: it is started anew.
    """
    try:
        with pymongo.timeout(_SECONDS_TO_DROP):
            client(uri).drop_database(name)
    except PyMongoError:
        for server in _shared:
            if server.url == uri:
                server.kill()
                server.start()
        client(uri).drop_database(name)


_emptied: list[str] = []


@contextmanager
def emptied_database() -> Iterator[dict[str, object]]:
    """Provide a database without documents for a block; it may have indexes already."""
    uri = url()
    if not _emptied:
        _emptied.append(f"jazzmine_test_{uuid4().hex}")
        atexit.register(client(uri).drop_database, _emptied[0])
    name = _emptied.pop()
    yield {"storage": "mongodb", "uri": uri, "db": name}
    for collection in ("turn_traces", "messages", "conversations", "memory_items"):
        client(uri)[name][collection].delete_many({})
    _emptied.append(name)
