"""A limit on how many calls do something at once."""

from __future__ import annotations

import threading
from itertools import islice

from jazzmine._compat.async_concurrency import Event

__all__ = ["Limiter"]


class Limiter:
    """Lets some calls run at once; the others wait, and run in the order in which they came.

    Each call names itself, so that it can release what it may or may not have acquired: it may
    have been interrupted between any two steps.

    Args:
        most: how many calls run at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._mutex = threading.Lock()
        self._calls: dict[object, Event] = {}  # the first `most` of them run

    async def acquire(self, call: object, timeout: float) -> bool:
        """Wait until a call may run; return False if it may not within `timeout` s.

        Whatever becomes of it, the call must be released in the end.
        """
        turn = Event()
        with self._mutex:
            self._calls[call] = turn
            if len(self._calls) <= self._most:
                return True
        return await turn.wait(timeout)

    def release(self, call: object) -> None:
        """Let the next call run, or stop waiting; this may be repeated."""
        with self._mutex:
            self._calls.pop(call, None)
            if len(self._calls) >= self._most:
                next(islice(self._calls.values(), self._most - 1, None)).set()
