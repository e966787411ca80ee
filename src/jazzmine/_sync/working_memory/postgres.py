"""Working memory in PostgreSQL, for many workers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jazzmine._sync.working_memory.hooks import Lease
from jazzmine._sync.working_memory.leased import LeasedStoreBase, Stored
from jazzmine._compat.sync_concurrency import Event
from jazzmine.backends.postgres import memory_statements as sql
from jazzmine.backends.postgres.schema import MEMORY
from jazzmine.backends.postgres.text import from_text, to_text
from jazzmine.config import PostgresMemoryConfig
from jazzmine.deadline import Deadline, milliseconds
from jazzmine.errors import JazzmineError
from jazzmine.records.unknown_fields import FORMAT

if TYPE_CHECKING:
    from jazzmine._sync.message_store.postgres_client import PostgresClient

__all__ = ["PostgresWorkingMemoryStore"]

# How often a store sweeps what has expired, at most, in s.
_SWEEPING = 60.0


class PostgresWorkingMemoryStore(LeasedStoreBase):
    """Working memories in PostgreSQL 12 or newer, shared by all processes that use it.

    One conversation has one writer at a time: its lock is a token in its row that expires, and a
    write counts only while its token holds the lock. Connections come from a pool of this store's
    own; while calls wait for locks there is one more, on which they are notified.
    """

    _system_name = "postgresql"

    # Behind a connection pooler, a lock that is handed over is noticed at the next attempt.
    _pauses = (0.005, 0.05)

    def __init__(self, config: PostgresMemoryConfig) -> None:
        PostgresMemoryConfig.require(config)
        super().__init__(config.ttl_seconds, config.lock_timeout, config.timeout)
        self._client = _open_client(config)
        self._place = f"{config.schema}.working_memory_corrupt"
        self._start()

    @classmethod
    def _configured(cls, config: PostgresMemoryConfig) -> PostgresWorkingMemoryStore:
        return cls(config)

    def _after_fork(self) -> None:
        super()._after_fork()
        self._client.after_fork()
        self._start()

    def _start(self) -> None:
        from jazzmine._sync.working_memory.postgres_wakeups import PostgresWakeUps

        self._wake_ups = PostgresWakeUps(self._client, self._store_name)
        self._next_sweep = Deadline(_SWEEPING * random.random())

    def _pending(self) -> list[str]:
        return self._client.pending()

    def _open(self) -> None:
        self._client.open()

    def _close(self) -> None:
        self._wake_ups.close()
        super()._close()
        self._client.close()

    def _ping(self) -> None:
        self._client.rows("SELECT 1")

    def _count(self) -> int:
        return int((self._client.rows(sql.COUNT))[0][0])

    def _conversations_of(self, user_id: str) -> list[str]:
        rows = self._client.rows(sql.CONVERSATIONS_OF, {"user": to_text(user_id)})
        return [from_text(row[0]) for row in rows]

    # A statement each

    def _fetch(self, conversation_id: str, deadline: Deadline, *, renew: bool) -> Stored:
        parameters: dict[str, object] = {"id": to_text(conversation_id)}
        if renew:
            parameters["ttl"] = milliseconds(self._ttl_seconds)
        statement = sql.RENEW if renew else sql.LOAD
        rows = self._client.rows(statement, parameters, deadline=deadline)
        return rows[0][0] if rows else None

    def _take(self, lease: Lease) -> Stored | float:
        # It was the head of the queue if it left the queue without the lock.
        place = 0 if not lease.entry else 1 if lease.tries == 1 else -1
        parameters = {
            "lock": milliseconds(self._lock_timeout),
            "released": lease.released,
            "place": place,
            "listens": lease.entry == _LISTENS,
        }
        wait_ms, stored = self._row(sql.TAKE, lease, lease.deadline, parameters)
        if wait_ms is not None:
            return (int(wait_ms) + 1) / 1000
        data: Stored = stored
        return data

    def _write(self, lease: Lease, data: bytes, user_id: str) -> bool:
        parameters = {
            "data": data,
            "user": to_text(user_id),
            "format": FORMAT,
            "ttl": milliseconds(self._ttl_seconds),
            "kept": milliseconds(self._result_kept),
        }
        (is_saved,) = self._row(sql.SAVE, lease, lease.deadline, parameters)
        if self._next_sweep.expired:
            self._next_sweep = Deadline(_SWEEPING * random.uniform(0.5, 1.0))
            self._background_tasks.start(self._sweep)
        return bool(is_saved)

    def _remove(self, lease: Lease) -> bool | None:
        parameters = {"kept": milliseconds(self._result_kept)}
        (is_deleted,) = self._row(sql.DELETE, lease, lease.deadline, parameters)
        return None if is_deleted is None else bool(is_deleted)

    def _wipe(self, lease: Lease, user_id: str) -> int | None:
        parameters = {"user": to_text(user_id), "kept": milliseconds(self._result_kept)}
        (erased,) = self._row(sql.ERASE, lease, lease.deadline, parameters)
        return None if erased is None else int(erased)

    def _release_remote(self, lease: Lease, deadline: Deadline) -> None:
        parameters = {"kept": milliseconds(self._result_kept)}
        self._row(sql.RELEASE, lease, deadline, parameters)

    def _extend(self, lease: Lease, deadline: Deadline) -> bool:
        parameters = {"lock": milliseconds(self._lock_timeout)}
        return self._row(sql.EXTEND, lease, deadline, parameters) is not None

    def _set_aside(self, conversation_id: str, data: bytes, deadline: Deadline) -> str:
        parameters = {"id": to_text(conversation_id), "data": data}
        self._client.rows(sql.SET_ASIDE, parameters, deadline=deadline)
        return self._place

    @contextmanager
    def _woken(self, lease: Lease) -> Iterator[Event | None]:
        with self._wake_ups.waiting(lease.token) as event:
            lease.entry = _POLLS if event is None else _LISTENS
            yield event

    def _sweep(self) -> None:
        """Delete some of what has expired; more is left to the next save."""
        try:
            deleted = self._client.rows(sql.SWEEP)
            self._client.rows(sql.SWEEP_CORRUPT)
        except JazzmineError:
            return
        if len(deleted) == sql.SWEPT_AT_ONCE:
            self._next_sweep = Deadline(0.0)

    def _row(
        self, statement: str, lease: Lease, deadline: Deadline, parameters: Mapping[str, object]
    ) -> Any:
        """Run a statement about a lease, and return its row; None if it has none."""
        about = {"id": to_text(lease.conversation_id), "token": lease.token}
        rows = self._client.rows(statement, {**about, **parameters}, deadline=deadline)
        return rows[0] if rows else None


# How a lease that waits in the queue learns that the lock is handed over to it.
_LISTENS, _POLLS = "listens", "polls"


def _open_client(config: PostgresMemoryConfig) -> PostgresClient:
    try:
        from jazzmine._sync.message_store.postgres_client import PostgresClient
    except ImportError as error:
        raise ImportError(
            "PostgreSQL needs its driver: pip install 'jazzmine[postgres]'"
        ) from error
    return PostgresClient(config, MEMORY)
