"""Working memory in PostgreSQL, for many workers."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

from jazzmine._sync.background import BackgroundTasks
from jazzmine._sync.clients.postgres import new_client
from jazzmine._sync.working_memory.backend import (
    Again,
    Lock,
    Locked,
    Save,
    Stored,
    WorkingMemoryBackend,
    Written,
    outcome_of,
    stored_of,
)
from jazzmine._sync.working_memory.store import WorkingMemoryStore
from jazzmine.backends.postgres import memory_statements as sql
from jazzmine.backends.postgres.schema import MEMORY_TABLES
from jazzmine.backends.postgres.text import from_text, to_text
from jazzmine.config import PostgresMemoryConfig
from jazzmine.deadline import Deadline, milliseconds
from jazzmine.errors import IntegrityError, JazzmineError

if TYPE_CHECKING:
    from jazzmine._sync.clients.postgres.client import PostgresClient

__all__ = ["PostgresBackend", "PostgresWorkingMemoryStore"]

# How often a store sweeps what has expired, at most, in s.
_SWEEPING = 60.0
_ATTEMPTS_TO_CREATE = 4


class PostgresWorkingMemoryStore(WorkingMemoryStore):
    """Working memories in PostgreSQL 12 or newer, shared by all processes that use it.

    An update is one statement, which writes only where nobody has saved meanwhile. Connections
    come from a pool of this store's own, or that of `open_stores`.
    """

    def __init__(self, config: PostgresMemoryConfig, client: PostgresClient | None = None) -> None:
        PostgresMemoryConfig.require(config)
        client = client or new_client(config, MEMORY_TABLES)
        super().__init__(PostgresBackend(config, client), config)


class PostgresBackend(WorkingMemoryBackend):
    """The table of a schema."""

    system_name = "postgresql"

    def __init__(self, config: PostgresMemoryConfig, client: PostgresClient) -> None:
        self._client = client
        self._ttl = milliseconds(config.ttl_seconds)
        self._ttl_in_block = milliseconds(max(config.ttl_seconds, config.lease_seconds))
        self._background_tasks = BackgroundTasks()
        self._next_sweep = Deadline(_SWEEPING * random.random())

    def open(self) -> None:
        self._client.open()

    def close(self) -> None:
        self._background_tasks.close(timeout=1.0)
        self._client.close()

    def pending(self) -> list[str]:
        return self._client.pending()

    def ping(self) -> None:
        self._client.run("SELECT 1")

    def load(
        self, conversation_id: str, deadline: Deadline, *, renew: bool = False
    ) -> Stored:
        parameters = {"id": to_text(conversation_id), "ttl": self._ttl}
        rows = self._client.run(
            sql.RENEW if renew else sql.LOAD, parameters, deadline=deadline
        )
        return _stored(*rows[0]) if rows else Stored()

    def write(
        self, save: Save, again: Again, deadline: Deadline
    ) -> Written | Locked | Stored:
        parameters = {
            "id": to_text(save.conversation_id),
            "mark": save.mark,
            "read": save.read_mark,
            "token": save.token,
            "data": save.data,
            "user": to_text(save.user_id),
            "format": save.format,
            "ttl": self._ttl,
        }
        statement = sql.DELETE if save.data is None else sql.WRITE if save.read_mark else sql.CREATE
        outcome = self._outcome(save, statement, parameters, deadline)
        if self._next_sweep.expired:
            self._next_sweep = Deadline(_SWEEPING * random.uniform(0.5, 1.0))
            self._background_tasks.start(self._sweep)
        return outcome

    def _outcome(
        self, save: Save, statement: str, parameters: Mapping[str, object], deadline: Deadline
    ) -> Written | Locked | Stored:
        """Send the statement of a save, again where it has waited and its reply is older."""
        unseen = 0
        while True:
            rows = self._client.run(statement, parameters, deadline=deadline)
            if rows:
                is_written, marks, written, user_id, holder, held_for = rows[0]
                if is_written:
                    return Written()
                locked = None if holder is None else Locked(holder, held_for)
                outcome = outcome_of(save, marks, written, _user(user_id), locked)
                # Beside what was read it would have written, and it may have: at an attempt whose
                # reply was lost, and whose end this one has waited for.
                if not isinstance(outcome, Stored) or outcome.mark != save.read_mark:
                    return outcome
            elif statement is not sql.CREATE:
                return Stored()
            elif (unseen := unseen + 1) == _ATTEMPTS_TO_CREATE:
                # Nobody can have made and deleted it so often: it is there, and a policy hides it.
                raise IntegrityError(
                    f"the id {save.conversation_id!r} is that of a working memory that this role"
                    " does not see; nothing was written"
                )

    def lock(self, lock: Lock, deadline: Deadline) -> Stored | Locked:
        parameters = {
            "id": to_text(lock.conversation_id),
            "token": lock.token,
            "holder": lock.holder,
            "lasts": milliseconds(lock.seconds),
            "renews": lock.renews,
            "ttl": self._ttl_in_block,
        }
        while rows := self._client.run(sql.LOCK, parameters, deadline=deadline):
            is_taken, marks, data, user_id, holder, held_for = rows[0]
            if holder is not None:
                return Locked(holder, held_for)
            if is_taken or lock.renews:
                return _stored(marks, data, user_id)
            # Another call has taken it while this one waited.
        return Stored()

    def unlock(self, conversation_id: str, token: str, deadline: Deadline) -> None:
        self._client.run(
            sql.UNLOCK, {"id": to_text(conversation_id), "token": token}, deadline=deadline
        )

    def conversations(self, deadline: Deadline, user_id: str | None = None) -> list[str]:
        if user_id is None:
            rows = self._client.run(sql.CONVERSATIONS, {}, deadline=deadline)
        else:
            rows = self._client.run(
                sql.CONVERSATIONS_OF, {"user": to_text(user_id)}, deadline=deadline
            )
        return [from_text(row[0]) for row in rows]

    def sample(self, limit: int, deadline: Deadline) -> list[str]:
        rows = self._client.run(sql.SAMPLE, {"limit": limit}, deadline=deadline)
        return [from_text(row[0]) for row in rows]

    def replace(
        self, conversation_id: str, stored: Stored, data: bytes, number: int, deadline: Deadline
    ) -> bool:
        parameters = {
            "id": to_text(conversation_id),
            "read": stored.mark,
            "data": data,
            "format": number,
        }
        return bool(self._client.run(sql.REPLACE, parameters, deadline=deadline))

    def count(self, deadline: Deadline) -> int:
        return int((self._client.run(sql.COUNT, {}, deadline=deadline))[0][0])

    def erase_expired(self, user_id: str, deadline: Deadline) -> None:
        self._client.run(sql.ERASE_EXPIRED, {"user": to_text(user_id)}, deadline=deadline)

    def _sweep(self) -> None:
        """Delete some of what has expired; more is left to the next save."""
        try:
            deleted = self._client.run(sql.SWEEP)
        except JazzmineError:
            return
        if len(deleted) == sql.SWEPT_AT_ONCE:
            self._next_sweep = Deadline(0.0)


def _stored(marks: str, data: bytes, user_id: str | None) -> Stored:
    return stored_of(marks, data, _user(user_id))


def _user(user_id: str | None) -> str:
    return "" if user_id is None else from_text(user_id)
