"""How calls that wait for a lock in PostgreSQL learn that it is theirs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from jazzmine._sync.background import BackgroundTask
from jazzmine._sync.message_store.postgres_client import PostgresClient
from jazzmine._sync.message_store.postgres_connection import Connection
from jazzmine._compat.sync_concurrency import Event
from jazzmine.backends.postgres.memory_statements import channel
from jazzmine.deadline import Deadline

__all__ = ["WakeUps"]

logger: logging.Logger = logging.getLogger(__name__)

# How long a connection is kept that no call needs, in s, and how long calls wait for one.
_KEPT, _CONNECTING = 5.0, 0.5


class WakeUps:
    """Wakes the calls of a store that wait for a lock, over one connection for all of them.

    The connection is opened when a call has to wait. Where none can be had, or it leads to a
    connection pooler, which does not pass notifications on, the calls are not woken.

    Args:
        client: what opens the connection, in addition to those of its pool.
        store: the name of the store in its tokens.
    """

    def __init__(self, client: PostgresClient, store: str) -> None:
        self._client = client
        self._channel = channel(store)
        self._waiting: dict[str, Event] = {}
        self._task = BackgroundTask(self._listen)
        self._decided = Event()
        self._listening = self._closed = self._is_pooled = False

    @contextmanager
    def waiting(self, token: str) -> Iterator[Event | None]:
        """Have an event in a block that is set when a lock is handed over to a token.

        The block gets the event, or None if it is not going to be set.
        """
        event = self._waiting[token] = Event()
        try:
            if not (self._listening or self._is_pooled):
                self._decided.clear()
                self._task.start()
                self._decided.wait(_CONNECTING)
            yield event if self._listening else None
        finally:
            del self._waiting[token]

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        self._task.close(timeout=1.0)

    def _listen(self) -> None:
        connection: Connection | None = None
        try:
            deadline = Deadline(5.0)
            connection = self._client.connect(deadline)
            connection.deadline = deadline
            cursor = connection.execute("SELECT pg_backend_pid()", prepare=False)
            # A pooler reports process ids of its own.
            self._is_pooled = cursor.fetchone() != (connection.info.backend_pid,)
            if not (self._is_pooled or self._closed):
                connection.execute(f"LISTEN {self._channel}".encode(), prepare=False)
                self._listening = True
                self._decided.set()
                self._pass_on_notifications(connection)
        except Exception as error:
            logger.debug("no call that waits for a lock is woken: %s", type(error).__name__)
        finally:
            self._listening = False
            self._decided.set()
            if connection is not None:
                with suppress(Exception):
                    connection.close()

    def _pass_on_notifications(self, connection: Connection) -> None:
        end = Deadline(_KEPT)
        while not (self._closed or end.expired):
            connection.wait_for_reply(0.25)
            connection.pgconn.consume_input()
            while (notification := connection.pgconn.notifies()) is not None:
                event = self._waiting.get(notification.extra.decode())
                if event is not None:
                    event.set()
            if self._waiting:
                end = Deadline(_KEPT)
