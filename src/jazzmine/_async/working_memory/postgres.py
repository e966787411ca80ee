"""Working memory in PostgreSQL, for many workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from jazzmine._async.clients.postgres import new_client
from jazzmine._async.working_memory.backend import Again, WorkingMemoryBackend
from jazzmine._async.working_memory.store import WorkingMemoryStore
from jazzmine.backends.postgres import memory_statements as sql
from jazzmine.backends.postgres.schema import MEMORY_TABLES
from jazzmine.backends.postgres.text import from_text, to_text
from jazzmine.config import PostgresMemoryConfig
from jazzmine.deadline import Deadline, milliseconds
from jazzmine.errors import IntegrityError
from jazzmine.records.stored_memory import Lock, Locked, Save, Stored, outcome_of

if TYPE_CHECKING:
    from jazzmine._async.clients.postgres.client import PostgresClient

_ATTEMPTS = 4


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
    keeps_expired: ClassVar[bool] = True

    def __init__(self, config: PostgresMemoryConfig, client: PostgresClient) -> None:
        self.client: PostgresClient = client
        self._ttl = milliseconds(config.ttl_seconds)
        self._ttl_in_block = milliseconds(max(config.ttl_seconds, config.lease_seconds))

    async def load(
        self, conversation_id: str, deadline: Deadline, *, renew: bool = False
    ) -> Stored:
        parameters = {"conversation_id": to_text(conversation_id), "ttl": self._ttl}
        statement = sql.RENEW if renew else sql.LOAD
        rows = await self.client.run(statement, parameters, deadline=deadline)
        if not rows:
            return Stored()
        marks, data, user_id = rows[0]
        return Stored(marks[:16], data, from_text(user_id or ""))

    async def write(self, save: Save, again: Again, deadline: Deadline) -> Save | Locked | Stored:
        parameters = {
            **save._asdict(),
            "conversation_id": to_text(save.conversation_id),
            "user_id": to_text(save.user_id),
            "ttl": self._ttl,
        }
        statement = sql.DELETE if save.data is None else sql.WRITE if save.read_mark else sql.CREATE
        for _ in range(_ATTEMPTS):
            rows = await self.client.run(statement, parameters, deadline=deadline)
            if rows:
                is_written, marks, *others = rows[0]
                if is_written or save.mark in marks:
                    return save
                outcome = _outcome(marks, *others)
                # Beside what was read it would have written, and it may have: at an attempt whose
                # reply was lost, and whose end this one has waited for.
                if isinstance(outcome, Locked) or outcome.mark != save.read_mark:
                    return outcome
            elif save.read_mark:
                return Stored()
        # Nobody can have made and deleted it so often: it is there, and a policy hides it.
        raise IntegrityError(
            f"the id {save.conversation_id!r} is that of a working memory that this role does not"
            " see; nothing was written"
        )

    async def lock(self, lock: Lock, deadline: Deadline) -> Stored | Locked:
        parameters = {
            **lock._asdict(),
            "conversation_id": to_text(lock.conversation_id),
            "lasts": milliseconds(lock.seconds) if lock.seconds else 0,
            "ttl": self._ttl_in_block,
        }
        while rows := await self.client.run(sql.LOCK, parameters, deadline=deadline):
            is_taken, *found = rows[0]
            outcome = _outcome(*found)
            if is_taken or lock.renews or isinstance(outcome, Locked):
                return outcome
            # Another call has taken it while this one waited.
        return Stored()

    async def conversations(
        self, deadline: Deadline, user_id: str | None = None, limit: int | None = None
    ) -> list[str]:
        parameters = {"user_id": user_id and to_text(user_id), "limit": limit}
        # Its index serves only a statement that is planned for this very user.
        rows = await self.client.run(
            sql.CONVERSATIONS, parameters, prepare=False, deadline=deadline
        )
        return [from_text(row[0]) for row in rows]

    async def sweep(self, deadline: Deadline, user_id: str | None = None) -> bool:
        statement = sql.SWEEP if user_id is None else sql.ERASE_EXPIRED
        parameters = {"user_id": to_text(user_id or "")}
        deleted = await self.client.run(statement, parameters, deadline=deadline)
        return len(deleted) == sql.SWEPT_AT_ONCE


def _outcome(
    marks: str, data: bytes, user_id: str | None, holder: str | None, held_for: float
) -> Stored | Locked:
    return outcome_of(marks, data, from_text(user_id or ""), holder, held_for)
