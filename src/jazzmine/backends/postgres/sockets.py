"""Functions on psycopg's sockets for both APIs."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

from psycopg import BaseConnection, waiting

from jazzmine.backends.postgres.errors import TimedOut
from jazzmine.deadline import Deadline

__all__ = ["TICK", "addresses_of", "is_dead", "limited", "reply", "resolution"]

# The interval in s at which a wait for a connection checks its deadline.
TICK = 0.1


def is_dead(connection: BaseConnection[Any]) -> bool:
    """Return whether an idle connection was closed by this client or by the server.

    An idle connection becomes readable only when the server closes it.
    """
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def limited(gen: Any, deadline: Deadline | None) -> Generator[Any, Any, Any]:
    """Run a generator of psycopg to its end, and return its value, if the deadline allows it.

    A reply that arrives in pieces is waited for no longer than one that does not arrive.

    Raises:
        TimedOut: the deadline passed before it ended.
    """
    try:
        state = next(gen)
        while True:
            ready = yield state
            if deadline is not None and deadline.expired:
                raise TimedOut("the server did not reply")
            state = gen.send(ready)
    except StopIteration as done:
        return done.value
    finally:
        # An error keeps this frame, and so the generator, which may hold a socket.
        gen.close()


def reply() -> Generator[waiting.Wait, waiting.Ready, None]:
    """Wait, as psycopg's generators do, until the server has sent something."""
    while not (yield waiting.WAIT_R):
        pass


def resolution(host: str, port: str) -> Future[list[str]]:
    """Start to look up the addresses of a host, and return the future result.

    The thread that does it does not keep the program from ending, as a thread of a
    `ThreadPoolExecutor` would.
    """
    found: Future[list[str]] = Future()
    found.set_running_or_notify_cancel()

    def look_up() -> None:
        try:
            found.set_result(addresses_of(host, port))
        except Exception as error:
            found.set_exception(error)

    threading.Thread(target=look_up, name="jazzmine-resolve", daemon=True).start()
    return found


def addresses_of(host: str, port: str) -> list[str]:
    """Return the addresses of a host; this blocks.

    Raises:
        OSError: the host has no address, or the look-up failed.
    """
    try:
        found = socket.getaddrinfo(host, port or None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"no name of a host: {error}") from None
    return list(dict.fromkeys(str(address[4][0]) for address in found))
