"""Functions on psycopg's connections for both APIs."""

from __future__ import annotations

import select
import socket
from collections.abc import Generator
from typing import Any

from psycopg import BaseConnection
from psycopg.adapt import AdaptersMap
from psycopg.postgres import adapters
from psycopg.types.numeric import Int8BinaryDumper

from jazzmine.backends.postgres.errors import TimedOut
from jazzmine.deadline import Deadline

__all__ = ["ADAPTERS", "TICK", "addresses_of", "is_dead", "until"]

# The interval in s at which a wait for a connection checks its deadline.
TICK = 0.1


def _own_adapters() -> AdaptersMap:
    # psycopg picks the type of an integer by its size, and each combination of types would be
    # prepared anew; ours are all 64 bits wide.
    own = AdaptersMap(adapters)
    own.register_dumper(int, Int8BinaryDumper)
    return own


ADAPTERS = _own_adapters()


def is_dead(connection: BaseConnection[Any]) -> bool:
    """Return whether an idle connection was closed by this client or by the server.

    An idle connection becomes readable only when the server closes it.
    """
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def until(deadline: Deadline | None, gen: Any) -> Generator[Any, Any, Any]:
    """Run a generator of psycopg until it ends, and return its value.

    Raises:
        TimedOut: the deadline passed before it ended.
    """
    try:
        state = next(gen)
        while True:
            ready = yield state
            if not ready and deadline is not None and deadline.expired:
                raise TimedOut("the server did not reply")
            state = gen.send(ready)
    except StopIteration as done:
        return done.value


def addresses_of(host: str, port: str) -> list[str]:
    """Return the addresses of a host; this blocks.

    Raises:
        OSError: the host has no address, or the look-up failed.
    """
    try:
        found = socket.getaddrinfo(host, port or None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"no name of a host: {error}") from None
    return list(dict.fromkeys(str(one[4][0]) for one in found))
