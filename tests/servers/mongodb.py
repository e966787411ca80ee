"""MongoDB servers for the tests: SecantusDB, which speaks the protocol on a real socket.

By default it is a replica set of one with transactions. JAZZMINE_TEST_MONGODB, the URL of a
server that runs already, stands in for that one: databases named jazzmine_test_… come and go
there. What SecantusDB lacks or grants where MongoDB does not is told where a test meets it.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

from pymongo import MongoClient
from pymongo.errors import PyMongoError

__all__ = ["Server", "client", "database", "emptied_database", "running", "url"]

_SECONDS_TO_START = 60.0


class Server:
    """A server of the tests' own, in a folder of its own; a context manager.

    Args:
        options: of the program, as in `--standalone`.
    """

    def __init__(self, *options: str) -> None:
        self._options = options
        self._folder = tempfile.TemporaryDirectory(prefix="jazzmine-mongodb-")
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()

    @property
    def url(self) -> str:
        """The server's URL, without a database."""
        return f"mongodb://127.0.0.1:{self.port}"

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
        self._folder.cleanup()

    def start(self, *options: str) -> None:
        """Start it on the same port and data as before, and wait until it answers."""
        folder = Path(self._folder.name)
        program = str(Path(__file__).with_name("secantus_server.py"))
        command = [sys.executable, program, "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--storage-path", str(folder / "data")]
        command += ["--enable-test-commands", "--log-level", "WARNING", *self._options, *options]
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        until = time.monotonic() + _SECONDS_TO_START
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                said = (folder / "log").read_text()[-2000:]
                raise RuntimeError(f"the MongoDB server for the tests did not start:\n{said}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            with MongoClient[dict[str, Any]](self.url, serverSelectionTimeoutMS=500) as admin:
                admin.admin.command("hello")
        except PyMongoError:
            return False
        return True

    def stop(self) -> None:
        """End it, and have all that was written on the disk."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """End it without a warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Stop it, in a block, from answering, with its connections open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # until it has really stopped
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@cache
def running(*options: str) -> Server:
    """Return the one with these options that all tests share, who leave it as they found it."""
    server = Server(*options).__enter__()
    atexit.register(server.__exit__, None, None, None)
    return server


def url() -> str:
    """Return the URL of a server with transactions, without a database."""
    return os.environ.get("JAZZMINE_TEST_MONGODB") or running().url


@cache
def client(uri: str) -> MongoClient[dict[str, Any]]:
    """Return a client beside the store's, to look at a server with."""
    beside: MongoClient[dict[str, Any]] = MongoClient(uri)
    atexit.register(beside.close)
    return beside


@contextmanager
def database(uri: str | None = None) -> Iterator[dict[str, object]]:
    """Have an empty database in a block: the configuration of a store that keeps to it."""
    uri = uri or url()
    name = f"jazzmine_test_{uuid4().hex}"
    try:
        yield {"storage": "mongodb", "uri": uri, "db": name}
    finally:
        client(uri).drop_database(name)


_emptied: list[str] = []


@contextmanager
def emptied_database() -> Iterator[dict[str, object]]:
    """Have a database without documents in a block; a test before may have made its indexes."""
    uri = url()
    if not _emptied:
        _emptied.append(f"jazzmine_test_{uuid4().hex}")
        atexit.register(client(uri).drop_database, _emptied[0])
    name = _emptied.pop()
    yield {"storage": "mongodb", "uri": uri, "db": name}
    for collection in ("turn_traces", "messages", "conversations"):
        client(uri)[name][collection].delete_many({})
    _emptied.append(name)
