"""How calls that wait for a lock in Redis learn that it is theirs."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

from jazzmine._sync.background import BackgroundTask
from jazzmine._compat.sync_concurrency import Event
from jazzmine._compat.sync_redis import AnyRedis, time_limit
from jazzmine.backends.redis.driver import is_cluster, max_connections
from jazzmine.deadline import Deadline

__all__ = ["WakeUps"]

logger: logging.Logger = logging.getLogger(__name__)

# How long a subscription is kept that no call needs, in s, and how long calls wait for one.
_KEPT, _CONNECTING = 5.0, 0.5

_subscriptions: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # of each client


class WakeUps:
    """Wakes the calls of a store that wait for a lock, over one subscription for all of them.

    Where no connection can be had for it, the calls are not woken.

    Args:
        client: the client whose connections are used, at most a quarter of them for this.
    """

    def __init__(self, client: AnyRedis) -> None:
        self._client: Any = client
        self._channel = "wm_wake:" + os.urandom(12).hex()
        self._waiting: dict[str, Event] = {}
        self._task = BackgroundTask(self._listen)
        self._decided = Event()
        self._address = ""  # in an entry of the queue, while the subscription stands
        self._closed = False

    @contextmanager
    def waiting(self, token: str) -> Iterator[tuple[Event, str]]:
        """Have an event in a block that is set when a lock is handed over to a token.

        The block gets the event, and the token's entry in the queue for the lock.
        """
        event = self._waiting[token] = Event()
        try:
            if not self._address:
                self._decided.clear()
                self._task.start()
                self._decided.wait(_CONNECTING)
            yield event, token + self._address
        finally:
            del self._waiting[token]

    def close(self) -> None:
        """End the subscription."""
        self._closed = True
        self._task.close(timeout=1.0)

    def _listen(self) -> None:
        subscriptions = _subscriptions.get(self._client, 0)
        if self._closed or subscriptions >= max_connections(self._client) // 4:
            self._decided.set()
            return
        _subscriptions[self._client] = subscriptions + 1
        pubsub: Any = None
        try:
            pubsub = self._client.pubsub()
            with time_limit(5.0):
                pubsub.subscribe(self._channel)
            self._pass_on_messages(pubsub)
        except Exception as error:
            logger.debug("no call that waits for a lock is woken: %s", error)
        finally:
            self._address = ""
            self._decided.set()
            _subscriptions[self._client] -= 1
            with suppress(Exception):
                pubsub.close()

    def _pass_on_messages(self, pubsub: Any) -> None:
        end = Deadline(_KEPT)
        while not (self._closed or end.expired):
            message = pubsub.get_message(timeout=0.25) or {"type": "none"}
            if message["type"] == "subscribe":
                self._address = ("#" if is_cluster(self._client) else "@") + self._channel
                self._decided.set()
            elif message["type"] == "message":
                token = message["data"]
                event = self._waiting.get(token if isinstance(token, str) else token.decode())
                if event is not None:
                    event.set()
            if self._waiting:
                end = Deadline(_KEPT)
