"""psycopg's sync pool, and what its async pool needs in another form."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from psycopg import Connection, waiting
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

from jazzmine.backends.postgres.sockets import TICK, limited
from jazzmine.deadline import Deadline

__all__ = ["DeadlineConnection", "DriverPool", "as_pool_worker", "result_within"]

T = TypeVar("T")
C = TypeVar("C", bound=Connection[Any])


class DriverPool(ConnectionPool[C]):
    """psycopg's pool, which does not wait for its threads when it is deleted."""

    def __init__(self, **options: Any) -> None:
        self._pid = os.getpid()
        super().__init__(**options)

    def __del__(self) -> None:
        # A forked child has the pool's state, and neither its threads nor its connections; and
        # psycopg waits here for threads that may be connecting, or are gone with the program.
        if os.getpid() == self._pid and not self.closed and not sys.is_finalizing():
            self._signal_stop_worker()


def result_within(seconds: float, future: Future[T]) -> T:
    """Return the result of work in a thread, or raise TimeoutError after so many seconds."""
    try:
        return future.result(min(seconds, threading.TIMEOUT_MAX))
    except FutureTimeoutError:
        raise TimeoutError(f"no result within {seconds:.3g} s") from None


class DeadlineConnection(Connection[TupleRow]):
    """A connection that waits for the server until a deadline.

    Attributes:
        deadline: until when its calls wait for the server; None for as long as it takes.
    """

    deadline: Deadline | None = None

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Run one of psycopg's generators to its end, and return its value.

        Raises:
            TimedOut: the deadline passed before it ended; the server was not waited for.
        """
        return waiting.wait(limited(gen, self.deadline), self.pgconn.socket, interval=TICK)


def as_pool_worker(result: T) -> T:
    """Return the result of some work in a thread of the pool; a thread needs no more to end."""
    return result
