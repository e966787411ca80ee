"""Working memory in Redis, for many workers."""

from __future__ import annotations

from typing import Any, Unpack

from jazzmine._sync.clients.redis import RedisClient
from jazzmine._sync.working_memory.backend import Again, WorkingMemoryBackend
from jazzmine._sync.working_memory.store import WorkingMemoryStore
from jazzmine._compat.redis import SyncAnyRedis as AnyRedis
from jazzmine.backends.addresses import wrong_option
from jazzmine.backends.redis import keys as layout
from jazzmine.backends.redis.driver import option_names, redis_driver
from jazzmine.backends.redis.keys import keys_of
from jazzmine.config import MemoryOptions, MoreMemoryOptions, RedisConfig
from jazzmine.deadline import Deadline, milliseconds
from jazzmine.errors import InvalidAddressError
from jazzmine.records.stored_memory import Lock, Locked, Save, Stored, outcome_of


class RedisWorkingMemoryStore(WorkingMemoryStore):
    """Working memories in Redis, shared by all processes that use it.

    No update is lost and no stale write wins on one primary: what a failover loses of the last
    writes is lost here, too.

    Args:
        redis_client: a client of redis-py, for one server, from Sentinel's `master_for`, or for
            a cluster. All traffic goes through it, with its settings: a call can end at its
            deadline only if the client has a `socket_timeout` and few retries. Closing the store
            leaves the client open.
        ttl_seconds: how long, in s, a working memory is kept after it was saved last.
        lock_timeout: how long, in s, an update waits for a `locked` block of another call.
        options: the others of `initialize` that every back end has, such as `timeout`.

    Raises:
        TypeError: `redis_client` is not a client of redis-py of the store's own kind.
    """

    def __init__(
        self,
        redis_client: AnyRedis,
        ttl_seconds: float = 3600,
        lock_timeout: float = 15,
        **options: Unpack[MoreMemoryOptions],
    ) -> None:
        config = MemoryOptions(ttl_seconds=ttl_seconds, lock_timeout=lock_timeout, **options)
        client: Any = redis_client
        if not isinstance(client, RedisClient):
            client = RedisClient(client, config.timeout)
        super().__init__(_Redis(client, config), config)


def redis_store(config: RedisConfig) -> RedisWorkingMemoryStore:
    """Return the store of a configuration, with a client of its own.

    Raises:
        InvalidAddressError: redis-py does not accept the URL.
    """
    driver, options = redis_driver(), {**vars(config)}
    url = options.pop("url")
    # How long a server is waited for at once: several times in a call, and in a lease.
    attempt_seconds = min(config.timeout / 4, config.lease_seconds / 2)
    try:
        client: Any = RedisClient.from_url(url, config.timeout, attempt_seconds)
    except (TypeError, ValueError, driver.RedisError) as error:
        # The driver's text may repeat the URL, and with it the password.
        wrong = wrong_option(url, error, option_names(), config.url_options())
        raise InvalidAddressError(f"url is not a URL that redis-py accepts{wrong}") from None
    return RedisWorkingMemoryStore(client, **options)


class _Redis(WorkingMemoryBackend):
    """Conditional writes and locks in Redis: a script each, and a plain read."""

    system_name = "redis"

    def __init__(self, client: RedisClient, config: MemoryOptions) -> None:
        self.client: RedisClient = client
        self._ttl = milliseconds(config.ttl_seconds)
        self._ttl_in_block = milliseconds(max(config.ttl_seconds, config.lease_seconds))

    def load(
        self, conversation_id: str, deadline: Deadline, *, renew: bool = False
    ) -> Stored:
        if renew:  # the script that locks sets the time to live, too
            found = self._lock(Lock(conversation_id, "", "", 0), deadline)
        else:
            key, _ = keys_of(conversation_id)
            found = self.client.execute(
                deadline, [key], "HMGET", key, "marks", "data", "user"
            )
        marks, data, user = found[:3]
        return Stored(_text(marks)[:16], data, _text(user))

    def write(self, save: Save, again: Again, deadline: Deadline) -> Save | Locked | Stored:
        # The client would encode other text than ASCII as its owner wants it.
        arguments: list[str | bytes | int] = [save.read_mark, save.mark, save.token]
        if isinstance(save.data, bytes):
            arguments += [self._ttl, save.data, save.user_id.encode(), save.format]
        keys = keys_of(save.conversation_id)
        reply = self.client.run(layout.WRITE, keys, arguments, deadline)
        return save if isinstance(reply, int) or save.mark in _text(reply[0]) else _outcome(reply)

    def lock(self, lock: Lock, deadline: Deadline) -> Stored | Locked:
        return _outcome(self._lock(lock, deadline))

    def _lock(self, lock: Lock, deadline: Deadline) -> Any:
        lasts = milliseconds(lock.seconds) if lock.seconds else 0
        ttl = self._ttl_in_block if lock.token else self._ttl
        arguments = (lock.token, lasts, lock.holder.encode(), int(lock.renews), ttl)
        keys = keys_of(lock.conversation_id)
        return self.client.run(layout.LOCK, keys, arguments, deadline)

    def conversations(
        self, deadline: Deadline, user_id: str | None = None, limit: int | None = None
    ) -> list[str]:
        keys = self.client.keys(layout.ANY_STATE, deadline, limit)
        if user_id is not None:
            users = self.client.read_field("user", keys, deadline)
            owner = user_id.encode()
            keys = [key for key, user in zip(keys, users, strict=True) if user == owner]
        return list(map(layout.conversation_of, keys))


def _outcome(reply: list[Any]) -> Stored | Locked:
    """Return what a script has found: what is stored, or who else holds the lock."""
    marks, data, user, holder, held_for = reply
    by = None if holder is None else _text(holder)
    return outcome_of(_text(marks), data, _text(user), by, (held_for or 0) / 1000)


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="replace")
