"""Working memory in Redis, for many workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from jazzmine._sync.working_memory.hooks import Lease
from jazzmine._sync.working_memory.leased import LeasedStoreBase, Stored
from jazzmine._sync.working_memory.redis_client import RedisClient
from jazzmine._sync.working_memory.redis_wakeups import RedisWakeUps
from jazzmine._compat.sync_concurrency import Event
from jazzmine._compat.sync_redis import AnyRedis, client_for, cluster_for, require_client
from jazzmine.backends.addresses import wrong_option
from jazzmine.backends.redis import keys as layout
from jazzmine.backends.redis.driver import option_names, redis_driver, settings_of
from jazzmine.backends.redis.keys import keys_of
from jazzmine.config import RedisConfig
from jazzmine.deadline import Deadline, milliseconds
from jazzmine.errors import InvalidAddressError

__all__ = ["RedisWorkingMemoryStore"]

# Of how many keys the user is asked for at once.
_KEYS_AT_ONCE = 500


class RedisWorkingMemoryStore(LeasedStoreBase):
    """Working memories in Redis, shared by all processes that use it.

    One conversation has one writer at a time: its lock is a key that expires, and a write counts
    only while its token holds the lock. That is true of one primary: what a failover loses of
    the last writes is lost here, too.

    Args:
        redis_client: a client of redis-py, for one server, from Sentinel's `master_for`, or for
            a cluster. All traffic goes through it, with its settings: a call can end at its
            deadline only if the client has a `socket_timeout` and few retries. Closing the store
            leaves the client open.
        ttl_seconds: how long, in s, a working memory is kept after it was saved last.
        lock_timeout: how long, in s, an update waits for the conversation's lock, and how long
            the lock of a process that died blocks the others.
        timeout: how long, in s, a call may take, however often it repeats its commands.

    Raises:
        TypeError: `redis_client` is not a client of redis-py of the store's own kind.
    """

    _system_name = "redis"

    def __init__(
        self,
        redis_client: AnyRedis,
        ttl_seconds: float = 3600,
        lock_timeout: float = 15,
        *,
        timeout: float = 30,
    ) -> None:
        super().__init__(ttl_seconds, lock_timeout, timeout)
        require_client(redis_client)
        self._client = redis_client
        self._config: RedisConfig | None = None  # of a client that is the store's own
        self._use_client()

    @classmethod
    def _configured(cls, config: RedisConfig) -> RedisWorkingMemoryStore:
        driver = redis_driver()
        reply_timeout = _reply_timeout(config.timeout, config.lock_timeout)
        try:
            client = client_for(config.url, reply_timeout)
        except (TypeError, ValueError, driver.RedisError) as error:
            # The driver's text may repeat the URL, and with it the password.
            wrong = wrong_option(config.url, error, option_names(), config.url_options())
            raise InvalidAddressError(f"url is not a URL that redis-py accepts{wrong}") from None
        store = cls(client, config.ttl_seconds, config.lock_timeout, timeout=config.timeout)
        store._config = config
        return store

    def _open(self) -> None:
        assert self._config is not None
        deadline, url = Deadline(self._timeout), self._config.url
        reply_timeout = _reply_timeout(self._timeout, self._lock_timeout)
        try:
            if self._redis.needs_cluster(deadline):
                self._client.close()
                self._client = self._redis.retry_until(
                    deadline, lambda: cluster_for(url, reply_timeout)
                )
                self._use_client()
                self._redis.ping(deadline)
        except BaseException:
            self._client.close()
            raise

    def _close(self) -> None:
        self._wake_ups.close()
        super()._close()
        self._redis.close(disconnect=self._config is not None)

    def _ping(self) -> None:
        self._redis.ping(Deadline(self._timeout))

    def _after_fork(self) -> None:
        super()._after_fork()
        self._use_client()

    def _use_client(self) -> None:
        limited = settings_of(self._client)["socket_timeout"] is not None
        reply_timeout = None if limited else _reply_timeout(self._timeout, self._lock_timeout)
        self._redis = RedisClient(self._client, reply_timeout)
        self._wake_ups = RedisWakeUps(self._client)

    def _count(self) -> int:
        return len(self._redis.keys(layout.ANY_MEMORY, Deadline(self._timeout)))

    def _conversations_of(self, user_id: str) -> list[str]:
        # In this order: one that is moved aside meanwhile is found at its old or its new place.
        found: dict[str, None] = {}
        for pattern in (layout.ANY_MEMORY, layout.ANY_SET_ASIDE):
            keys = self._redis.keys(pattern, Deadline(self._timeout))
            names = [
                key.decode(errors="replace") if isinstance(key, bytes) else key for key in keys
            ]
            for first in range(0, len(names), _KEYS_AT_ONCE):
                some = names[first : first + _KEYS_AT_ONCE]
                owned = self._owned(some, user_id.encode())
                found.update(dict.fromkeys(map(layout.conversation_of, owned)))
        return list(found)

    def _owned(self, keys: Sequence[str], user_id: bytes) -> list[str]:
        """Return those of the keys whose working memory is a user's."""
        deadline = Deadline(self._timeout)
        users = self._redis.read_field("user", keys, deadline)
        owned = []
        for key, user in zip(keys, users, strict=True):
            if user is None:
                user = self._redis.run(layout.OWNER, (key,), (), deadline)
            if user == user_id:
                owned.append(key)
        return owned

    # A script each

    def _fetch(self, conversation_id: str, deadline: Deadline, *, renew: bool) -> Stored:
        keys = (keys_of(conversation_id).memory,)
        if not renew:
            # The script costs more; it tells nothing at all from what is no working memory.
            with suppress(redis_driver().ResponseError):
                data = self._redis.execute(deadline, "HGET", *keys, "data")
                if data is not None:
                    return _stored(data)
        arguments = (milliseconds(self._ttl_seconds) if renew else 0,)
        return _stored(self._redis.run(layout.LOAD, keys, arguments, deadline))

    def _take(self, lease: Lease) -> Stored | float:
        # It was the head of the queue if it left the queue without the lock.
        end = "RPUSH" if lease.tries == 1 else "LPUSH"
        queueing = (lease.entry, end) if lease.entry else ()
        arguments = (lease.token, milliseconds(self._lock_timeout), lease.released, *queueing)
        found = self._redis.run(layout.ACQUIRE, _locking(lease), arguments, lease.deadline)
        if not isinstance(found, int):
            return _stored(found)
        return (found + 1) / 1000 if found >= 0 else float(self._lock_timeout)

    def _write(self, lease: Lease, data: bytes, user_id: str) -> bool:
        times = (milliseconds(self._ttl_seconds), milliseconds(self._result_kept))
        arguments = (lease.token, data, user_id, layout.FORMAT, *times)
        return bool(self._redis.run(layout.SAVE, _locking(lease), arguments, lease.deadline))

    def _remove(self, lease: Lease) -> bool | None:
        arguments = (lease.token, milliseconds(self._result_kept))
        deleted = self._redis.run(layout.DELETE, _locking(lease), arguments, lease.deadline)
        return None if deleted < 0 else bool(deleted)

    def _wipe(self, lease: Lease, user_id: str) -> int | None:
        keys = (*_locking(lease), keys_of(lease.conversation_id).corrupt)
        arguments = (lease.token, user_id, milliseconds(self._result_kept))
        erased: int = self._redis.run(layout.ERASE, keys, arguments, lease.deadline)
        return None if erased < 0 else erased

    def _release_remote(self, lease: Lease, deadline: Deadline) -> None:
        arguments = (lease.token, milliseconds(self._result_kept), lease.entry)
        self._redis.run(layout.RELEASE, _locking(lease)[1:], arguments, deadline)

    def _extend(self, lease: Lease, deadline: Deadline) -> bool:
        keys, arguments = _locking(lease)[1:2], (lease.token, milliseconds(self._lock_timeout))
        return bool(self._redis.run(layout.RENEW, keys, arguments, deadline))

    def _set_aside(self, conversation_id: str, data: bytes, deadline: Deadline) -> str:
        keys = keys_of(conversation_id)
        arguments = (data, layout.SET_ASIDE_MS)
        self._redis.run(layout.SET_ASIDE, (keys.memory, keys.corrupt), arguments, deadline)
        return keys.corrupt

    @contextmanager
    def _woken(self, lease: Lease) -> Iterator[Event | None]:
        with self._wake_ups.waiting(lease.token) as event:
            lease.entry = lease.token + ("" if event is None else self._wake_ups.address)
            yield event


def _locking(lease: Lease) -> tuple[str, str, str, str]:
    """Return the keys that a lock is taken and released with."""
    keys = keys_of(lease.conversation_id)
    return keys.memory, keys.lock, keys.result(lease.token), keys.queue


def _stored(reply: Any) -> Stored:
    # A list has one text: why what is there is no JSON.
    stored: Stored = reply[0].decode() if isinstance(reply, list) else reply
    return stored


def _reply_timeout(timeout: float, lock_timeout: float) -> float:
    """Return how long to wait for a reply before a command is repeated, in s."""
    return min(5.0, timeout / 3, max(0.1, lock_timeout / 4))
