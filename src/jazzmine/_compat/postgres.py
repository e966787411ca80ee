"""The pools of psycopg, async and sync."""

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
        # A forked child has the pool's state without its threads and connections. psycopg would
        # wait here for threads that are connecting, or have ended with the program.
        if os.getpid() == self._pid and not self.closed and not sys.is_finalizing():
            self._signal_stop_worker()
