"""What the async and the sync API both do with psycopg's connections."""

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

# How often a wait for a connection looks at its deadline, in s.
TICK = 0.1


def _own_adapters() -> AdaptersMap:
    # psycopg picks the type of an integer by its size, and each combination of types would be
    # prepared anew; ours are all 64 bits wide.
    own = AdaptersMap(adapters)
    own.register_dumper(int, Int8BinaryDumper)
    return own


ADAPTERS = _own_adapters()


def is_dead(connection: BaseConnection[Any]) -> bool:
    """Whether a connection that is not in use is closed, at this end or at the other.

    A server sends nothing to it but that it closes the connection.
    """
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def until(deadline: Deadline | None, gen: Any) -> Generator[Any, Any, Any]:
    """Run one of psycopg's generators.

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
    """Look up the addresses of a host; this blocks.

    Raises:
        OSError: it has none, or none can be found out.
    """
    try:
        found = socket.getaddrinfo(host, port or None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"no name of a host: {error}") from None
    return list(dict.fromkeys(str(one[4][0]) for one in found))
