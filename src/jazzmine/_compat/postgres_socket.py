"""What both worlds do with a connection's socket, and how both open connections."""

from __future__ import annotations

import math
import os
import select
import socket
from dataclasses import dataclass, field
from typing import Any

from psycopg import BaseConnection
from psycopg.adapt import AdaptersMap
from psycopg.postgres import adapters
from psycopg.types.numeric import Int8BinaryDumper

__all__ = ["Options", "is_dead", "shut_down"]


def _our_adapters() -> AdaptersMap:
    # psycopg picks the type of an integer by its size, and each combination of types would be
    # prepared anew; ours are all 64 bits wide.
    ours = AdaptersMap(adapters)
    ours.register_dumper(int, Int8BinaryDumper)
    return ours


_adapters = _our_adapters()


@dataclass(frozen=True)
class Options:
    """How connections are opened, and how many."""

    conninfo: str = field(repr=False)
    pool_min: int
    pool_max: int
    prepare: bool
    timeout: float

    def connection(self) -> dict[str, Any]:
        """Return the arguments of `connect` beside the `conninfo`."""
        return {
            "autocommit": True,
            "context": _adapters,
            "prepare_threshold": 0 if self.prepare else None,
            "connect_timeout": max(2, math.ceil(self.timeout)),
        }


def shut_down(connection: BaseConnection[Any]) -> None:
    """Shut the socket down under whoever waits on it; the connection stays theirs to close."""
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)
    except Exception:
        # It is closed, or was never open.
        return


def is_dead(connection: BaseConnection[Any]) -> bool:
    """Whether a connection that is not in use is closed, at this end or at the other.

    A server says nothing unasked but that it closes the connection.
    """
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
