"""Stores for `benchmarks/rivals`: two that keep everything, and others with one defect each."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

from benchmarks.rivals.store import Said, Store, turn

__all__ = ["Kept", "Sent", "Server", "served"]


class Kept(Store):
    """Keeps messages in a file of SQLite, each call in one transaction."""

    order = "number"
    secure_delete = "ON"

    async def open(self, place: str) -> None:
        self._connection = sqlite3.connect(place, timeout=60, isolation_level=None)
        self._connection.execute(f"PRAGMA secure_delete = {self.secure_delete}")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS messages"
            " (number INTEGER PRIMARY KEY, session, id, role, text, call, at REAL)"
        )
        self._connection.execute("CREATE TABLE IF NOT EXISTS sessions (id, user, title)")

    async def create(self, session: str, user: str, title: str) -> None:
        self._connection.execute("INSERT INTO sessions VALUES (?, ?, ?)", (session, user, title))

    async def add(self, session: str, user: str, messages: list[Said]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for message in messages:
            self._insert(session, message)
        self._connection.execute("COMMIT")

    def _insert(self, session: str, message: Said) -> None:
        statement = "INSERT INTO messages (session, id, role, text, call, at) VALUES (?,?,?,?,?,?)"
        self._connection.execute(statement, (session, *message.values(), time.time()))

    async def newest(self, session: str, user: str, count: int) -> list[Said]:
        columns = "id, role, text, call"
        query = f"SELECT {columns} FROM messages WHERE session = ? ORDER BY {self.order}"
        rows = self._connection.execute(query, (session,)).fetchall()
        return [Said(id=r[0], role=r[1], text=r[2], call=r[3]) for r in rows[-count:]]

    async def erase(self, user: str, sessions: list[str]) -> None:
        for session in sessions:
            self._connection.execute("DELETE FROM messages WHERE session = ?", (session,))
            self._connection.execute("DELETE FROM sessions WHERE id = ?", (session,))

    async def close(self) -> None:
        self._connection.close()


class NeverOpen(Kept):
    async def open(self, place: str) -> None:
        raise OSError("this store never opens")


# Processes at once


class Refusing(Kept):
    async def add(self, session: str, user: str, messages: list[Said]) -> None:
        if messages[0]["id"].endswith("4"):
            raise OSError("refused")
        await super().add(session, user, messages)


class Losing(Kept):
    def _insert(self, session: str, message: Said) -> None:
        if not message["id"].endswith("5"):
            super()._insert(session, message)


class Doubling(Kept):
    def _insert(self, session: str, message: Said) -> None:
        super()._insert(session, message)
        super()._insert(session, message)


class Tearing(Kept):
    order = "role, number"


class Disordered(Kept):
    order = "number DESC"


# Kills


class Halved(Kept):
    """Has written the call of a tool when its process is killed, and not the result."""

    async def turn(
        self, session: str, user: str, messages: list[Said], pause: Callable[[], float]
    ) -> None:
        await self.add(session, user, [*messages, *turn("next")[:2]])
        await asyncio.sleep(600)


# Clocks


class OrderedByClock(Kept):
    order = "at, id DESC"


class LatestAlone(Kept):
    """Takes nothing that is not later than all that it has."""

    def _insert(self, session: str, message: Said) -> None:
        [latest] = self._connection.execute("SELECT max(at) FROM messages").fetchone()
        if latest is None or time.time() > latest:
            super()._insert(session, message)


# Erasure


class KeepingTitles(Kept):
    async def erase(self, user: str, sessions: list[str]) -> None:
        for session in sessions:
            self._connection.execute("DELETE FROM messages WHERE session = ?", (session,))


class LeavingBytes(Kept):
    secure_delete = "OFF"


class ErasingAll(Kept):
    async def erase(self, user: str, sessions: list[str]) -> None:
        self._connection.execute("DELETE FROM messages")
        self._connection.execute("DELETE FROM sessions")


# Dropped replies


class Server(ThreadingTCPServer):
    """Keeps messages: a request with some, and another one that commits them."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.messages: list[Said] = []
        self.port: int = self.server_address[1]


class _Connection(StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        pending: list[Said] = []
        for line in self.rfile:
            request = json.loads(line)
            reply: list[Said] = []
            if request == "read":
                reply = self.server.messages
            elif request == "commit":
                self.server.messages += pending
                pending = []
            else:
                stored = {message["id"] for message in self.server.messages}
                checks = request["checks"]
                pending = [m for m in request["add"] if not checks or m["id"] not in stored]
            self.wfile.write(json.dumps(reply).encode() + b"\n")


@contextmanager
def served() -> Iterator[Server]:
    """Run a server until the end of the block."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Sent(Store):
    """Sends messages to a server, which takes none twice."""

    checks = True

    async def open(self, place: str) -> None:
        self._port = int(place)
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        self._replies = self._socket.makefile()

    def _ask(self, request: Any) -> Any:
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        reply = self._replies.readline()
        if not reply:
            self._connect()
            raise ConnectionError("no reply")
        return json.loads(reply)

    async def create(self, session: str, user: str, title: str) -> None:
        """A session is what the server keeps."""

    async def add(self, session: str, user: str, messages: list[Said]) -> None:
        self._ask({"add": messages, "checks": self.checks})
        self._ask("commit")

    async def newest(self, session: str, user: str, count: int) -> list[Said]:
        stored: list[Said] = self._ask("read")
        return stored[-count:]

    async def close(self) -> None:
        self._socket.close()


class SentTwice(Sent):
    checks = False


class SentAndForgotten(Sent):
    async def add(self, session: str, user: str, messages: list[Said]) -> None:
        with suppress(ConnectionError):  # nobody learns of it
            await super().add(session, user, messages)


class SentOnce(Sent):
    """Never sends again what was sent without a reply."""

    async def add(self, session: str, user: str, messages: list[Said]) -> None:
        if messages == getattr(self, "_doubtful", None):
            raise ConnectionError("it may be there")
        self._doubtful = messages
        await super().add(session, user, messages)
