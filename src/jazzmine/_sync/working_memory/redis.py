"""Working memory in Redis, for many workers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from jazzmine._sync.clients.redis import RedisClient
from jazzmine._sync.working_memory.backend import (
    Again,
    Lock,
    Locked,
    Mark,
    Owned,
    Save,
    Stored,
    WorkingMemoryBackend,
    Written,
)
from jazzmine._sync.working_memory.store import WorkingMemoryStore
from jazzmine._compat.sync_redis import AnyRedis, client_for, cluster_for, require_client
from jazzmine.backends.addresses import wrong_option
from jazzmine.backends.redis import keys as layout
from jazzmine.backends.redis.driver import option_names, redis_driver, settings_of
from jazzmine.backends.redis.keys import Keys, keys_of
from jazzmine.config import MemoryOptions, RedisConfig
from jazzmine.deadline import Deadline, milliseconds
from jazzmine.encryption import Keyring
from jazzmine.errors import InvalidAddressError

__all__ = ["RedisWorkingMemoryStore", "redis_store"]

# The keys of the states that this library writes.
_OWN = "wm:{*}"

_FIELDS = ("mark", "data", "user")


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
        timeout: how long, in s, a call may take, however often it repeats its commands.
        lease_seconds: how long, in s, a block of a process that died delays the others.
        strict: whether a transition that does not apply raises `NotAppliedError`.
        encryption, encryption_accepts_plain: as `initialize` takes them.

    Raises:
        TypeError: `redis_client` is not a client of redis-py of the store's own kind.
    """

    def __init__(
        self,
        redis_client: AnyRedis,
        ttl_seconds: float = 3600,
        lock_timeout: float = 15,
        *,
        timeout: float = 30,
        lease_seconds: float = 10,
        strict: bool = False,
        encryption: Keyring | str | None = None,
        encryption_accepts_plain: bool = False,
    ) -> None:
        require_client(redis_client)
        config = MemoryOptions(
            ttl_seconds=ttl_seconds,
            lock_timeout=lock_timeout,
            timeout=timeout,
            lease_seconds=lease_seconds,
            strict=strict,
            encryption=encryption,
            encryption_accepts_plain=encryption_accepts_plain,
        )
        super().__init__(_Redis(redis_client, config), config)


def redis_store(config: RedisConfig) -> RedisWorkingMemoryStore:
    """Return the store of a configuration, with a client of its own.

    Raises:
        InvalidAddressError: redis-py does not accept the URL.
    """
    driver, options = redis_driver(), {**vars(config)}
    url = options.pop("url")
    try:
        client = client_for(url, config.timeout)
    except (TypeError, ValueError, driver.RedisError) as error:
        # The driver's text may repeat the URL, and with it the password.
        wrong = wrong_option(url, error, option_names(), config.url_options())
        raise InvalidAddressError(f"url is not a URL that redis-py accepts{wrong}") from None
    store = RedisWorkingMemoryStore(client, **options)
    assert isinstance(store.backend, _Redis)
    store.backend.own_client(url)
    return store


class _Redis(WorkingMemoryBackend):
    """Conditional writes, reads and locks in Redis: a script each, and a plain read.

    Args:
        client: a client of redis-py, which is left open.
        config: the options of the store.
    """

    system_name = "redis"

    def __init__(self, client: AnyRedis, config: MemoryOptions) -> None:
        self._client = client
        self._url = ""
        self._timeout = config.timeout
        # Several attempts are made in the time of a call, and before a lock expires.
        self._attempt_seconds = min(2.0, config.timeout / 4, config.lease_seconds / 4)
        self._ttl = milliseconds(config.ttl_seconds)
        self._kept = milliseconds(2 * config.timeout)
        self.after_fork()

    def own_client(self, url: str) -> None:
        """Close the client in the end, which is one of `client_for`."""
        self._url = url
        self.after_fork()

    def open(self) -> None:
        """Connect, with the client of a cluster if the server is a node of one."""
        deadline, url, node_timeout = Deadline(self._timeout), self._url, self._timeout / 3
        try:
            if self._redis.needs_cluster(deadline):
                self._client.close()
                self._client = self._redis.retry_until(
                    deadline, lambda: cluster_for(url, node_timeout), self._timeout
                )
                self.after_fork()
                self._redis.ping(deadline)
        except BaseException:
            self._client.close()
            raise

    def close(self) -> None:
        """Close the client if it is the back end's own."""
        self._redis.close(disconnect=bool(self._url))

    def after_fork(self) -> None:
        """Forget the commands of the parent's threads; redis-py opens new connections itself."""
        limited = not self._url and settings_of(self._client)["socket_timeout"] is not None
        self._redis = RedisClient(self._client, None if limited else self._attempt_seconds)

    def ping(self) -> None:
        """Ask a server for a sign of life."""
        self._redis.ping(Deadline(self._timeout))

    def load(
        self,
        conversation_id: str,
        deadline: Deadline,
        *,
        taken_back: Mark | None = None,
        renew: bool = False,
    ) -> Stored:
        """Read with a plain command, or with a script that does more in the same step."""
        keys = keys_of(conversation_id)
        if taken_back is None and not renew:
            fields = self._redis.read(deadline, "hmget", keys.memory, *_FIELDS)
            if fields is not None:  # or else the script says what is wrong with the key
                stored = Stored() if fields[1] is None else _stored(*fields)
                return self._or_predecessor(keys, stored, deadline)
        store, number = taken_back or ("", 0)
        arguments = (store, number, self._kept, self._ttl if renew else 0)
        reply = self._redis.run(layout.READ, keys.of_store(store), arguments, deadline)
        return self._or_predecessor(keys, _outcome(reply), deadline)

    def write(
        self, save: Save, again: Again, deadline: Deadline
    ) -> Written | Locked | Stored:
        """Write with a script; of what jazzmine 0.1 wrote nothing is left then."""
        keys, (store, number), data = keys_of(save.conversation_id), save.mark, save.data
        state = () if data is None else (self._ttl, data, save.user_id, save.form.format)
        read_mark = layout.known_mark(save.read_mark)
        arguments = (store, number, read_mark, self._kept, *state)
        reply = self._redis.run(layout.WRITE, keys.of_store(store), arguments, deadline)
        if reply[0] != b"written":
            return _outcome(reply)
        # A deletion asks again, because a process may have died between its two commands.
        if keys.predecessor and (read_mark == layout.PREDECESSOR or data is None):
            self._redis.execute(deadline, "DEL", keys.predecessor)
        return Written()

    def lock(self, lock: Lock, deadline: Deadline) -> Stored | Locked:
        """Lock with a script; what jazzmine 0.1 wrote is locked as well."""
        keys, (store, number) = keys_of(lock.conversation_id), lock.mark
        arguments = (store, number, milliseconds(lock.seconds), lock.holder)
        outcome = self._lock(keys, arguments, deadline)
        if isinstance(outcome, Stored) and not outcome.exists:
            older = self._or_predecessor(keys, outcome, deadline)
            if older.exists:
                outcome = self._lock(keys, (*arguments, "absent"), deadline)
                if isinstance(outcome, Stored) and not outcome.exists:
                    return older
        return outcome

    def _lock(
        self, keys: Keys, arguments: Sequence[str | int], deadline: Deadline
    ) -> Stored | Locked:
        names = keys.of_store(str(arguments[0]))
        return _outcome(self._redis.run(layout.LOCK, names, arguments, deadline))

    def set_aside(self, conversation_id: str, mark: str, deadline: Deadline) -> str:
        """Rename the key; what jazzmine 0.1 wrote may lie on another server, and is copied."""
        keys = keys_of(conversation_id)
        if layout.known_mark(mark) == layout.PREDECESSOR:
            data = self._redis.execute(deadline, "get", keys.predecessor)
            if data is not None:
                expiry = ("PX", layout.SET_ASIDE_MS)
                self._redis.execute(deadline, "SET", keys.corrupt, data, *expiry)
                self._redis.execute(deadline, "DEL", keys.predecessor)
        else:
            names = (*keys.of_store(""), keys.corrupt)
            arguments = (layout.known_mark(mark), layout.SET_ASIDE_MS)
            self._redis.run(layout.SET_ASIDE, names, arguments, deadline)
        return keys.corrupt.decode()

    def conversations(self, deadline: Deadline) -> list[str]:
        """Look at all keys."""
        keys = self._redis.keys(_OWN, deadline)
        return list(map(layout.conversation_of, keys))

    def replace(
        self, conversation_id: str, stored: Stored, data: bytes, number: int, deadline: Deadline
    ) -> bool:
        """Replace with a script; what jazzmine 0.1 wrote is left to the first save."""
        names, read = keys_of(conversation_id).of_store(""), stored.written or b""
        arguments = (layout.known_mark(stored.mark), read, data, stored.user_id, number)
        return bool(self._redis.run(layout.REPLACE, names, arguments, deadline))

    def count(self, deadline: Deadline) -> int:
        """Count the keys."""
        return len(self._redis.keys(_OWN, deadline))

    def owned_by(self, user_id: str, deadline: Deadline) -> Owned:
        """Look at all keys, those of states first."""
        conversations = self._owned(layout.ANY_MEMORY, user_id, deadline)
        return Owned(conversations, self._owned(layout.ANY_SET_ASIDE, user_id, deadline))

    def _owned(self, pattern: str, user_id: str, deadline: Deadline) -> list[str]:
        """Return the conversations of those keys that are a user's."""
        keys = list(self._redis.keys(pattern, deadline))
        users = self._redis.read_field("user", keys, deadline)
        owned = set[str]()
        for key, user in zip(keys, users, strict=True):
            if user is None:
                is_owner = self._redis.run(layout.OWNER, (key,), (user_id, ""), deadline)
            else:
                is_owner = user == user_id.encode()
            if is_owner:
                owned.add(layout.conversation_of(key))
        return list(owned)

    def erase_leftovers(
        self, user_id: str, conversation_ids: Sequence[str], deadline: Deadline
    ) -> None:
        """Delete each key of a state that was set aside with a script that looks whose it is."""
        for conversation_id in conversation_ids:
            key, arguments = keys_of(conversation_id).corrupt, (user_id, "delete")
            self._redis.run(layout.OWNER, (key,), arguments, deadline)

    def _or_predecessor(self, keys: Keys, stored: Any, deadline: Deadline) -> Stored:
        """Return what is stored, or what jazzmine 0.1 wrote where that is nothing."""
        outcome: Stored = stored
        if outcome.exists or not keys.predecessor:
            return outcome
        data = self._redis.read(deadline, "get", keys.predecessor)
        if data is None:  # a key of another type is another program's
            return outcome
        return Stored(layout.mark_of(layout.PREDECESSOR, data), data, _user_in(data))


def _outcome(reply: Any) -> Locked | Stored:
    """Return what a script says that has not written."""
    kind, *parts = reply
    if kind == b"stored":
        mark, data, user, problem = parts
        return _stored(mark, data, user, problem.decode())
    holder, held = parts
    return Locked(holder.decode(errors="replace"), held / 1000)


def _stored(
    mark: bytes | None, data: bytes | None, user: bytes | None = None, problem: str = ""
) -> Stored:
    name = layout.UNMARKED if mark is None else mark.decode()
    if name == layout.UNMARKED:
        name = layout.mark_of(name, data or b"")
    owner = _user_in(data) if user is None else user.decode(errors="replace")
    return Stored(name, data, owner, problem)


def _user_in(data: bytes | None) -> str:
    """Return the user in JSON of a version that did not keep it beside that; "" if unknown."""
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(data or b"")["user_id"])
    return ""
