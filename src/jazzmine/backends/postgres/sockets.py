"""What psycopg leaves to its users about the sockets of connections."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress

import psycopg
from psycopg.pq.abc import PGconn

__all__ = ["reset"]


def reset(connection: PGconn) -> None:
    """Close the socket of a connection so that nothing that waits to be sent is sent any more."""
    # A connection that is lost already has no socket any more.
    with suppress(OSError, ValueError, psycopg.OperationalError):
        copy = socket.socket(fileno=os.dup(connection.socket))
        try:
            copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        finally:
            copy.close()
    connection.finish()
