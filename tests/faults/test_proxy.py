"""The proxy of the tests causes the faults that it is set to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.servers.proxy import Proxy

SOON = 5.0


class Log:
    """A server that echoes each chunk, and records all data that it received."""

    def __init__(self) -> None:
        self.received = b""
        self.ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65536):
                self.received += data
                connection.sendall(data)
        self.ended.set()


@pytest.fixture
def log() -> Iterator[Log]:
    server = Log()
    yield server
    server.close()


@pytest.fixture
def proxy(log: Log) -> Iterator[Proxy]:
    with Proxy(log.port) as opened:
        yield opened


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with connected(proxy) as opened:
        yield opened


def connected(proxy: Proxy) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", proxy.port), timeout=SOON)
    until = time.monotonic() + SOON
    while not proxy.open and time.monotonic() < until:
        time.sleep(0.001)
    return opened


def exchange(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    return receive(client, len(data))


def receive(client: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        received += client.recv(count - len(received))
    return received


def send_held(proxy: Proxy, client: socket.socket, data: bytes) -> None:
    """Send data that the proxy holds, and wait until the proxy has received it."""
    before = proxy.held
    client.sendall(data)
    eventually(lambda: proxy.held == before + len(data))


def eventually(holds: object) -> None:
    assert callable(holds)
    until = time.monotonic() + SOON
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_data_is_forwarded_without_a_fault(proxy: Proxy, client: socket.socket, log: Log) -> None:
    assert exchange(client, b"a") == b"a"
    assert exchange(client, b"b") == b"b"
    assert log.received == b"ab"
    assert proxy.round_trips == 2
    assert proxy.connections == 1


def test_held_data_is_delivered_in_order(proxy: Proxy, client: socket.socket, log: Log) -> None:
    proxy.hold()
    send_held(proxy, client, b"one ")
    send_held(proxy, client, b"two ")
    assert log.received == b""

    proxy.deliver()
    assert receive(client, 8) == b"one two "
    assert exchange(client, b"three") == b"three"
    assert log.received == b"one two three"


def test_held_data_outlives_its_client(proxy: Proxy, client: socket.socket, log: Log) -> None:
    proxy.hold()
    send_held(proxy, client, b"late")
    client.close()
    [connection] = proxy.open
    eventually(lambda: connection.client_closed)
    assert not log.ended.is_set()

    proxy.deliver()
    assert log.ended.wait(SOON)
    assert log.received == b"late"
    eventually(lambda: not proxy.open)


def test_held_data_can_be_delivered_later(proxy: Proxy, client: socket.socket, log: Log) -> None:
    proxy.hold()
    send_held(proxy, client, b"late")
    started = time.monotonic()
    proxy.deliver(0.1)
    client.close()
    assert log.ended.wait(SOON)
    assert time.monotonic() - started >= 0.1
    assert log.received == b"late"


def test_the_first_chunks_may_pass(proxy: Proxy, client: socket.socket, log: Log) -> None:
    proxy.hold(after=2)
    assert exchange(client, b"1") == b"1"
    assert exchange(client, b"2") == b"2"
    send_held(proxy, client, b"3")
    assert log.received == b"12"


def test_a_connection_is_held_alone(proxy: Proxy, client: socket.socket, log: Log) -> None:
    with connected(proxy) as other:
        eventually(lambda: len(proxy.open) == 2)
        proxy.open[0].hold()
        send_held(proxy, client, b"held")
        assert exchange(other, b"passes") == b"passes"
        assert log.received == b"passes"


def test_connections_to_come_are_held_too(proxy: Proxy, log: Log) -> None:
    proxy.hold(after=1)
    with connected(proxy) as client:
        assert exchange(client, b"1") == b"1"
        send_held(proxy, client, b"2")
    assert log.received == b"1"


def test_a_client_can_be_cut_off_from_its_held_data(
    proxy: Proxy, client: socket.socket, log: Log
) -> None:
    proxy.hold()
    send_held(proxy, client, b"late")
    proxy.cut_clients()
    assert client.recv(1) == b""
    proxy.deliver()
    assert log.ended.wait(SOON)
    assert log.received == b"late"


def test_held_data_is_lost_with_the_connection(
    proxy: Proxy, client: socket.socket, log: Log
) -> None:
    proxy.hold()
    send_held(proxy, client, b"lost")
    proxy.cut()
    assert client.recv(1) == b""
    assert log.ended.wait(SOON)
    assert log.received == b""


def test_a_reply_can_be_dripped(proxy: Proxy, client: socket.socket) -> None:
    proxy.drip = 0.01
    client.sendall(b"slow")
    started = time.monotonic()
    assert receive(client, 4) == b"slow"
    assert time.monotonic() - started >= 0.03
