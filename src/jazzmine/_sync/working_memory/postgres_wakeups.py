"""Listens on a channel of PostgreSQL on which a store is told that it was given a lock."""

from __future__ import annotations

from collections.abc import Sequence

from jazzmine._sync.message_store.postgres_client import PostgresClient
from jazzmine._sync.message_store.postgres_connection import Connection
from jazzmine._sync.working_memory.wakeups import WakeUps
from jazzmine.backends.postgres.memory_statements import channel
from jazzmine.deadline import Deadline

__all__ = ["PostgresWakeUps"]


class PostgresWakeUps(WakeUps):
    """Listens on a connection of its own.

    A connection pooler does not pass notifications on: behind one, calls are not woken.

    Args:
        client: what opens the connection, in addition to those of its pool.
        store: the name of the store in its tokens.
    """

    def __init__(self, client: PostgresClient, store: str) -> None:
        super().__init__()
        self._client = client
        self._channel = channel(store)
        self._connection: Connection | None = None

    def _subscribe(self) -> bool:
        connection = self._connection = self._client.connect(Deadline(5.0))
        cursor = connection.execute("SELECT pg_backend_pid()", prepare=False)
        # A pooler reports process ids of its own.
        self._is_possible = cursor.fetchone() == (connection.info.backend_pid,)
        if self._is_possible:
            connection.execute(f"LISTEN {self._channel}".encode(), prepare=False)
        return self._is_possible

    def _receive(self) -> Sequence[str]:
        assert self._connection is not None
        self._connection.wait_for_reply(0.25)
        self._connection.pgconn.consume_input()
        tokens = []
        while (notification := self._connection.pgconn.notifies()) is not None:
            tokens.append(notification.extra.decode())
        return tokens

    def _unsubscribe(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()
