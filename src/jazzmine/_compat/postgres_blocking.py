"""psycopg in the blocking world."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import psycopg
from psycopg import Connection as PsycopgConnection
from psycopg import Cursor as PsycopgCursor
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

from jazzmine._compat.postgres_socket import Options, is_dead, shut_down

__all__ = [
    "Combiner",
    "Connection",
    "Connections",
    "Cursor",
    "Cutoff",
    "Together",
    "connect",
    "pause",
]


Cursor = PsycopgCursor[TupleRow]
Noted = Callable[[Exception | None], None]


class Connection(PsycopgConnection[TupleRow]):
    """A connection."""

    @classmethod
    def connect(  # type: ignore[override]
        cls, conninfo: str = "", *, noted: Noted | None = None, **options: Any
    ) -> Connection:
        """Connect, and report the error or, with None, that there was none."""
        try:
            connection = super().connect(conninfo, **options)
        except psycopg.Error as error:
            if noted is not None:
                noted(error)
            raise
        if noted is not None:
            noted(None)
        return connection


def connect(options: Options, timeout: float) -> Connection:
    """Open a connection outside of any pool.

    Raises:
        psycopg.Error: the server refused it, or could not be reached within `timeout` s.
    """
    attempt = _Attempt(options)
    attempt.start()
    attempt.join(timeout)
    return attempt.result()


class _Attempt(threading.Thread):
    """Connects in a thread of its own, since nothing can interrupt a name's resolution."""

    def __init__(self, options: Options) -> None:
        super().__init__(name="jazzmine-connect", daemon=True)
        self._options = options
        self._mutex = threading.Lock()
        self._abandoned = False
        self._connection: Connection | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            connection = Connection.connect(self._options.conninfo, **self._options.connection())
        except BaseException as error:
            self._error = error
            return
        with self._mutex:
            if self._abandoned:
                connection.close()
            else:
                self._connection = connection

    def result(self) -> Connection:
        with self._mutex:
            self._abandoned = True
            if self._connection is not None:
                return self._connection
        raise self._error or psycopg.errors.ConnectionTimeout("connection timeout expired")


def pause(seconds: float) -> None:
    """Let so much time pass."""
    time.sleep(seconds)


class _Watch:
    """A thread that strikes whatever is due; it runs while there is anything to watch."""

    TICK = 0.1
    IDLE_TICKS = 50

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.cutoffs: set[Cutoff] = set()
        self._running = False

    def add(self, cutoff: Cutoff) -> None:
        with self.mutex:
            self.cutoffs.add(cutoff)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="jazzmine-watch", daemon=True).start()

    def _run(self) -> None:
        idle = 0
        while True:
            time.sleep(self.TICK)
            now = time.monotonic()
            with self.mutex:
                idle = 0 if self.cutoffs else idle + 1
                if idle > self.IDLE_TICKS:
                    self._running = False
                    return
                for cutoff in [one for one in self.cutoffs if one.deadline <= now]:
                    self.cutoffs.discard(cutoff)
                    cutoff.strike()


_watch = _Watch()


def _new_watch() -> None:
    global _watch
    _watch = _Watch()


# The thread stays behind in the parent, perhaps with the mutex.
os.register_at_fork(after_in_child=_new_watch)


class Cutoff:
    """Shuts a connection's socket down at a deadline, so that whoever waits on it fails.

    Args:
        connection: what to cut off, unless `cancel` comes first.
        seconds: when.
    """

    __slots__ = ("_connection", "_watch", "deadline", "struck")

    def __init__(self, connection: Connection, seconds: float) -> None:
        self.struck = False
        self.deadline = time.monotonic() + seconds
        self._connection = connection
        self._watch = _watch
        _watch.add(self)

    def strike(self) -> None:
        """Shut it down; only the watch does this, with its mutex held."""
        self.struck = True
        shut_down(self._connection)

    def cancel(self) -> None:
        """Leave the connection alone."""
        with self._watch.mutex:
            self._watch.cutoffs.discard(self)


class _Pool(ConnectionPool[Connection]):
    def __init__(self, **options: Any) -> None:
        self._home = os.getpid()
        super().__init__(**options)

    def __del__(self) -> None:
        # A forked child has the pool's state, and neither its threads nor its connections.
        if os.getpid() == self._home:
            super().__del__()

    @staticmethod
    def check_connection(conn: Any) -> None:
        """Raise if the connection is known to be dead; that takes no round trip."""
        if is_dead(conn):
            conn.close()
            raise psycopg.OperationalError("the connection is lost")


class Connections:
    """A pool of connections that are open whenever the server can be reached.

    `failure` is why the latest attempt to open one failed, or None.
    """

    def __init__(self, options: Options) -> None:
        self.failure: Exception | None = None
        self._failures = 0
        self._opened = False
        self._pool = _Pool(
            conninfo=options.conninfo,
            connection_class=Connection,
            kwargs={**options.connection(), "noted": self._note},
            min_size=options.pool_min,
            max_size=options.pool_max,
            open=False,
            reconnect_timeout=0,
            reconnect_failed=self._reconnect,
        )

    def _note(self, error: Exception | None) -> None:
        self.failure = error
        self._failures = 0 if error is None else self._failures + 1

    def _reconnect(self, pool: Any) -> None:
        # The pool itself would wait longer and longer, and then for ever.
        time.sleep(random.uniform(0.5, 1.0) * min(1.0, 0.1 * self._failures))
        pool.check()

    def open(self, timeout: float | None = None) -> None:
        """Open the pool's connections, and wait for them if there is a `timeout`."""
        self._pool.open(wait=timeout is not None, timeout=timeout or 0)
        self._opened = True

    def close(self) -> None:
        """Close all connections, those in use when they come back."""
        self._pool.close()

    def acquire(self, timeout: float) -> Connection:
        """Take a connection; it has to be released.

        Raises:
            PoolTimeout: none was free, or could be opened, within `timeout` s.
            PoolClosed: the pool is closed.
        """
        if not self._opened:
            self.open()
        return self._pool.getconn(timeout)

    def release(self, connection: Connection) -> None:
        """Give a connection back."""
        self._pool.putconn(connection)

    def discard_dead(self) -> None:
        """Replace the idle connections that are known to be dead."""
        self._pool.check()


T = TypeVar("T")
Together = Callable[[Sequence[T], float], None]


class Combiner(Generic[T]):
    """Has things done one by one; waking the threads would cost more than it saves.

    Args:
        together: does some of them at once, all or none, until a deadline.
        lanes: how many calls of it may be under way.
        timeout: how long each has, in s.
    """

    def __init__(self, together: Together[T], lanes: int, timeout: float) -> None:
        self._together = together
        self._timeout = timeout

    def run(self, item: T) -> None:
        """Have it done."""
        self._together([item], time.monotonic() + self._timeout)

    def close(self) -> None:
        """Wait for nothing: each thread waits for its own."""
