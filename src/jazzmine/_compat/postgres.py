"""psycopg's async pool, and its sync pool with what the async one does not need."""

from __future__ import annotations

import os
import sys
from typing import Any, TypeVar

from psycopg import Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

__all__ = ["AsyncDriverPool", "SyncDriverPool"]

C = TypeVar("C", bound=Connection[Any])

AsyncDriverPool = AsyncConnectionPool


class SyncDriverPool(ConnectionPool[C]):
    """psycopg's pool, which does not wait for its threads when it is deleted."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._pid = os.getpid()
        super().__init__(*args, **options)

    def __del__(self) -> None:
        # A forked child has the pool's state, and neither its threads nor its connections; and
        # psycopg waits here for threads that may be connecting, or are gone with the program.
        if os.getpid() == self._pid and not self.closed and not sys.is_finalizing():
            self._signal_stop_worker()
