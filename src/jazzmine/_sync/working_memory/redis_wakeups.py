"""Subscribes to a channel of Redis on which a store is told that it was given a lock."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from jazzmine._sync.working_memory.wakeups import WakeUps
from jazzmine._compat.sync_redis import AnyRedis, time_limit
from jazzmine.backends.redis.driver import is_cluster, max_connections

__all__ = ["RedisWakeUps"]

_subscriptions: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # of each client


class RedisWakeUps(WakeUps):
    """Subscribes through a client of redis-py.

    Args:
        client: the client whose connections are used, at most a quarter of them for this.

    Attributes:
        address: what follows the token in an entry of the queue, while there is a subscription.
    """

    def __init__(self, client: AnyRedis) -> None:
        super().__init__()
        self._client: Any = client
        self._channel = "wm_wake:" + os.urandom(12).hex()
        self._pubsub: Any = None
        self.address = ("#" if is_cluster(client) else "@") + self._channel

    def _subscribe(self) -> bool:
        subscriptions = _subscriptions.get(self._client, 0)
        if subscriptions >= max_connections(self._client) // 4:
            return False
        self._pubsub = self._client.pubsub()
        _subscriptions[self._client] = subscriptions + 1
        with time_limit(5.0):
            self._pubsub.subscribe(self._channel)
        return self._pubsub.get_message(timeout=5.0) is not None  # the confirmation

    def _receive(self) -> Sequence[str]:
        message = self._pubsub.get_message(timeout=0.25)
        if message is None or message["type"] != "message":
            return ()
        token = message["data"]
        return (token if isinstance(token, str) else token.decode(),)

    def _unsubscribe(self) -> None:
        if self._pubsub is not None:
            _subscriptions[self._client] -= 1
            pubsub, self._pubsub = self._pubsub, None
            pubsub.close()
