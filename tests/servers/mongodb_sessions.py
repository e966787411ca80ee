"""What MongoDB refuses for the sake of a session, and SecantusDB does not.

A retryable write and a transaction carry the number of their session's transaction. MongoDB
executes a number once, and none that is lower than one that it has seen in the session;
SecantusDB ignores the numbers.
"""

from __future__ import annotations

import struct
import threading
from typing import Any

import bson

__all__ = ["Sessions"]

_HEADER = struct.Struct("<iiii")
_OP_MSG = 2013
_DOCUMENT = _HEADER.size + 4 + 1  # behind the flags and the kind of the first section


class Sessions:
    """The highest number that each session has sent."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._highest: dict[bytes, int] = {}

    def note(self, chunk: bytes) -> None:
        """Remember the number in a message that reaches the server."""
        if numbered := _numbered(chunk):
            session, number = numbered
            with self._mutex:
                self._highest[session] = max(number, self._highest.get(session, number))

    def refuse(self, chunk: bytes) -> bool:
        """Whether MongoDB would execute nothing of a message that arrives late."""
        if numbered := _numbered(chunk):
            session, number = numbered
            with self._mutex:
                return number <= self._highest.get(session, number - 1)
        return False


def _numbered(chunk: bytes) -> tuple[bytes, int] | None:
    """The session and the number in a message, if it has them."""
    if len(chunk) < _DOCUMENT or _HEADER.unpack_from(chunk)[3] != _OP_MSG:
        return None
    try:
        size = struct.unpack_from("<i", chunk, _DOCUMENT)[0]
        command: dict[str, Any] = bson.decode(chunk[_DOCUMENT : _DOCUMENT + size])
        return bytes(command["lsid"]["id"]), int(command["txnNumber"])
    except (struct.error, bson.InvalidBSON, KeyError):
        return None
