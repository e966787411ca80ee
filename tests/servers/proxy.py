"""A proxy between a client and a server that delays, drops and counts data."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable


class Proxy:
    """Forwards connections to a port; a context manager.

    A round trip is a request and its reply: all that a client sends between two replies counts
    once. The faults can be set while the proxy runs.

    Attributes:
        delay: the delay of each reply in s.
        drip: the time in s between two bytes of a reply; 0 forwards replies at once.
        swallow_requests: drop the data of clients.
        swallow_replies: drop the data of the server. After dropped data, a connection forwards
            nothing more in that direction, because TCP never delivers a stream with a gap.
        on_loss: called when a reply is lost.
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.target = port
        self._host = host
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: list[Connection] = []
        self._mutex = threading.Lock()
        self.round_trips = 0
        self.connections = 0
        self.delay = 0.0
        self.drip = 0.0
        self.swallow_requests = False
        self.swallow_replies = False
        self._hold_after: int | None = None
        self._lose_reply = 0
        self._silently = False
        self.lost = 0
        self.on_loss: Callable[[], object] = lambda: None
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The URL of the proxy, with the first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def open(self) -> list[Connection]:
        """The connections that the server has not seen closed, oldest first."""
        with self._mutex:
            return list(self._open)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self.cut()

    def refuse(self) -> None:
        """Refuse all further connections."""
        with contextlib.suppress(OSError):
            # Closed alone, it would accept the next one: its thread waits for that.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def lose_reply(self, number: int, *, silently: bool = False) -> None:
        """Cut the connection instead of forwarding the `number`-th reply from now on.

        Args:
            silently: keep the connection open, but forward no further reply.
        """
        self._silently = silently
        self._lose_reply = number

    def hold(self, after: int = 0) -> None:
        """Hold the data from clients on each connection, future connections included.

        Args:
            after: the number of chunks to forward on each connection first.
        """
        with self._mutex:
            self._hold_after = after
        for connection in self.open:
            connection.hold(after)

    def deliver(self) -> None:
        """Send the held data to the server, and hold nothing more."""
        with self._mutex:
            self._hold_after = None
        for connection in self.open:
            connection.deliver()

    def cut(self) -> None:
        """Close all connections, and drop the held data."""
        for connection in self.open:
            connection.cut()

    def cut_clients(self) -> None:
        """Close the connections to the clients; held data can still be delivered."""
        for connection in self.open:
            connection.cut_client()

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
                connection = Connection(self, self.connections, client, server)
                self._open.append(connection)
                if self._hold_after is not None:
                    connection.hold(self._hold_after)
            connection.start()

    def _count_request(self, connection: Connection) -> None:
        with self._mutex:
            self.round_trips += not connection.server_has_the_turn
            connection.server_has_the_turn = True

    def _is_reply_lost(self, connection: Connection) -> bool:
        """Count a reply; return whether its connection is to be cut instead."""
        with self._mutex:
            replied, connection.server_has_the_turn = connection.server_has_the_turn, False
            self._lose_reply -= replied
            lost = replied and self._lose_reply == 0
            self.lost += lost
        if lost:
            self.on_loss()
            self.swallow_replies |= self._silently
        return lost and not self._silently

    def _forget(self, connection: Connection) -> None:
        with self._mutex, contextlib.suppress(ValueError):
            self._open.remove(connection)


class Connection:
    """One connection through the proxy.

    While it holds data, the server receives nothing from the client, not even the end of the
    stream: it waits, as if the network had delayed the packets. `deliver` sends all held data in
    order, then the end of the stream. Replies are read to the end, and dropped if the client has
    closed the connection.

    Attributes:
        number: 1 for the first through the proxy, 2 for the second, and so on.
    """

    def __init__(
        self, proxy: Proxy, number: int, client: socket.socket, server: socket.socket
    ) -> None:
        self.number = number
        self._proxy = proxy
        self._client = client
        self._server = server
        self._mutex = threading.Lock()  # of what is held; bytes reach the server under it, in order
        self._pass: int | None = None  # how many chunks pass until they are held
        self._held: list[bytes] = []
        self._ends_later = False
        self._requests_are_lost = False
        self._replies_are_lost = False
        self.server_has_the_turn = False

    def start(self) -> None:
        """Forward data in both directions."""
        for work in (self._forward_requests, self._forward_replies):
            threading.Thread(target=work, daemon=True).start()

    def hold(self, after: int = 0) -> None:
        """Hold the data from the client after `after` more chunks."""
        with self._mutex:
            if not self._held:
                self._pass = after

    def deliver(self) -> None:
        """Send the held data to the server, and hold nothing more."""
        with self._mutex:
            for chunk in self._held:
                _send(self._server, chunk)
            self._held.clear()
            self._pass = None
            if self._ends_later:
                with contextlib.suppress(OSError):
                    self._server.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        """Close both ends, and drop the held data."""
        with self._mutex:
            self._held.clear()
            self._pass = None
        _shut(self._client)
        _shut(self._server)
        self._proxy._forget(self)

    def cut_client(self) -> None:
        """Close the client's end; held data can still be delivered."""
        _shut(self._client)

    def _forward_requests(self) -> None:
        while data := _receive(self._client):
            self._proxy._count_request(self)
            if not self._forward_request(data):
                break
        with self._mutex:
            self._ends_later = self._pass == 0
            if self._ends_later:
                return
        self.cut()

    def _forward_request(self, data: bytes) -> bool:
        self._requests_are_lost |= self._proxy.swallow_requests
        if self._requests_are_lost:
            return True
        with self._mutex:
            if self._pass == 0:
                self._held.append(data)
                return True
            if self._pass is not None:
                self._pass -= 1
            return _send(self._server, data)

    def _forward_replies(self) -> None:
        while data := _receive(self._server):
            if self._proxy.delay:
                time.sleep(self._proxy.delay)
            if self._proxy._is_reply_lost(self):
                break
            self._replies_are_lost |= self._proxy.swallow_replies
            if not self._replies_are_lost and not self._reply(data):
                break
        self.cut()

    def _reply(self, data: bytes) -> bool:
        """Forward a reply; return whether the connection stays open."""
        pieces = [data]
        if self._proxy.drip:
            pieces = [data[n : n + 1] for n in range(len(data))]
        for piece in pieces:
            if not _send(self._client, piece):
                with self._mutex:
                    return self._ends_later or self._pass == 0
            if self._proxy.drip:
                time.sleep(self._proxy.drip)
        return True


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
