"""A proxy between a client and a server that disturbs what passes, and counts it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType

__all__ = ["Proxy"]


class Proxy:
    """Forwards connections to a port; a context manager.

    A round trip is a turn of the conversation: whatever a client sends between two replies
    counts once. What is done to the replies is set while it runs.
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.target = port
        self._host = host
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._mutex = threading.Lock()
        self.round_trips = 0
        self.connections = 0
        self.delay = 0.0
        self.swallow_requests = False
        self.swallow_replies = False
        self._lose_reply = 0
        self._silently = False
        self.lost = 0
        self.on_loss: Callable[[], object] = lambda: None
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The URL of the first database behind it."""
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listener.close()
        self.cut()

    def lose_reply(self, number: int, *, silently: bool = False) -> None:
        """Cut the connection instead of forwarding the `number`-th reply from now on.

        Args:
            silently: leave the connection open, and forward no other reply either.
        """
        self._silently = silently
        self._lose_reply = number

    def cut(self) -> None:
        """Close all connections."""
        with self._mutex:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                _shut(end)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((self._host, self.target))
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._mutex:
                self.connections += 1
                self._pairs.append((client, server))
            turn = [False]  # whether the server has the floor
            for work in (self._forward_requests, self._forward_replies):
                threading.Thread(target=work, args=(client, server, turn), daemon=True).start()

    def _forward_requests(
        self, client: socket.socket, server: socket.socket, turn: list[bool]
    ) -> None:
        while data := _receive(client):
            with self._mutex:
                if not turn[0]:
                    turn[0] = True
                    self.round_trips += 1
            if not self.swallow_requests and not _send(server, data):
                break
        _shut(client)
        _shut(server)

    def _forward_replies(
        self, client: socket.socket, server: socket.socket, turn: list[bool]
    ) -> None:
        while data := _receive(server):
            if self.delay:
                time.sleep(self.delay)
            with self._mutex:
                replied, turn[0] = turn[0], False
                self._lose_reply -= replied
                lost = replied and self._lose_reply == 0
                self.lost += lost
            if lost:
                self.on_loss()
                self.swallow_replies |= self._silently
                if not self._silently:
                    break
            if not self.swallow_replies and not _send(client, data):
                break
        _shut(client)
        _shut(server)


def _receive(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except OSError:
        return b""


def _send(end: socket.socket, data: bytes) -> bool:
    try:
        end.sendall(data)
    except OSError:
        return False
    return True


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
