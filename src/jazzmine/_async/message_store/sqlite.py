"""The message store in an SQLite database."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ClassVar

from jazzmine._async.clients.sqlite import SQLiteClient, file_client
from jazzmine._async.message_store.backend import Batch, MessageBackend, TraceKey
from jazzmine._async.message_store.store import MessageStore
from jazzmine.backends.sqlite import erasure, log_changes, queries, search, search_queries, writes
from jazzmine.backends.sqlite import traces as trace_queries
from jazzmine.backends.sqlite.queries import limit_of
from jazzmine.backends.sqlite.rows import TABLES
from jazzmine.backends.sqlite.schema import MESSAGE_TABLES
from jazzmine.config import SQLiteConfig
from jazzmine.encryption.records import record_codec
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.conversation_log import DeletedCounts, Refusal
from jazzmine.records.hook_arguments import (
    Append,
    ConversationPage,
    Fork,
    MessagePage,
    NewestPage,
    TracePage,
    Turn,
)
from jazzmine.records.messages import Conversation
from jazzmine.records.rows import Row
from jazzmine.records.types import MIN_INT
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary
from jazzmine.search.query import Clause, FoundPage, SearchScope, SearchState
from jazzmine.search.ranking import Counts


class SQLiteBackend(MessageBackend):
    """Messages in an SQLite database.

    Small reads are done at once, and all others in a thread; writes in the thread of the writer.

    Args:
        client: runs its queries and changes.
        search: the language of the index that a new store gets, or None.
    """

    system_name = "sqlite"

    # All other writes wait for each step, and not just those of its records.
    deleted_at_once: int = 50

    # How many messages are indexed in the step that makes the index; here, others may be writing.
    indexed_at_once: ClassVar[int] = 0

    def __init__(self, client: SQLiteClient, search: str | None = None) -> None:
        self.client: SQLiteClient = client
        self.search_language = search

    async def _row(self, statement: str, key: str) -> Row | None:
        return await self.client.read(queries.row, statement, key)

    async def _rows(self, records: int | None, statement: str, *parameters: Any) -> list[Row]:
        return await self.client.read(queries.rows, statement, parameters, records=records)

    # Writes

    async def store(self, turn: Turn) -> None:
        await self.client.write(writes.put, *turn)

    async def flag_message(self, message_id: str, flagged: bool) -> bool:
        return await self.client.write(writes.flag_message, message_id, flagged)

    async def delete_message(self, message_id: str) -> bool:
        return await self.client.write(writes.delete, "messages", message_id)

    async def delete_conversation(self, conversation_id: str) -> bool:
        return await self.client.write(writes.delete, "conversations", conversation_id)

    async def create_conversation(self, conversation: Snapshot[Conversation]) -> Row | None:
        # Most of them exist already, which a read finds without the lock of the database.
        stored = await self.get_conversation(conversation.record.id)
        return stored or await self.client.write(writes.create, conversation)

    async def move_user(self, from_user_id: str, to_user_id: str) -> int:
        return await self.client.write(writes.move_user, from_user_id, to_user_id)

    async def rewrite(
        self,
        kind: RecordKind,
        ids: Sequence[str],
        change: Callable[[Row], Snapshot[Any] | None],
    ) -> Sequence[str]:
        return await self.client.write(writes.rewrite, kind, ids, change)

    async def purge(self) -> None:
        await self.client.purge()

    # A conversation as a log

    async def append(self, given: Append) -> int | Refusal:
        return await self.client.write(log_changes.append, given)

    async def pop(self, conversation_id: str, check: Callable[[Row], object]) -> Row | None:
        return await self.client.write(log_changes.pop, conversation_id, check)

    async def rewind(self, conversation_id: str, after: str | None) -> int:
        return await self.client.write(log_changes.rewind, conversation_id, after)

    async def fork(self, fork: Fork) -> dict[str, str]:
        return await self.client.write(log_changes.fork, fork)

    # Erasure and retention

    async def newest_sequence(self) -> tuple[int, int, int]:
        return await self.client.read(queries.newest_sequence)

    async def erase(self, user_id: str, limit: int, newest: Any) -> DeletedCounts:
        erased = await self.client.write(erasure.erase, user_id, limit, newest)
        if not any(erased):
            await self.client.purge()
        return erased

    async def prune(self, conversations: Sequence[Row], before: int, limit: int) -> tuple[int, int]:
        return await self.client.write(erasure.prune, conversations, before, limit)

    async def iter_old(
        self, before: int, size: int, user_id: str | None = None
    ) -> AsyncIterator[Sequence[Row]]:
        statement = queries.OLD_CONVERSATIONS[user_id is not None]
        values = {"before": before, "limit": size, "user": user_id, "time": MIN_INT, "seq": 0}
        while rows := await self.client.read(queries.rows, statement, values, records=None):
            values |= {"time": rows[-1][2], "seq": rows[-1][3]}
            yield rows

    # Reads

    async def get_conversation(self, conversation_id: str) -> Row | None:
        return await self._row(queries.STORED["conversations"], conversation_id)

    async def get_message(self, message_id: str) -> Row | None:
        return await self._row(queries.STORED["messages"], message_id)

    async def get_trace(self, by: TraceKey, key: str) -> Row | None:
        statement = queries.STORED["traces"] if by == "id" else queries.TRACE_OF_MESSAGE
        return await self._row(statement, key)

    async def get_messages(self, message_ids: Sequence[str]) -> Sequence[Row]:
        return await self.client.read(
            queries.messages_by_ids, message_ids, records=len(message_ids)
        )

    async def _page(self, kind: RecordKind, records: int | None, *arguments: Any) -> Sequence[Row]:
        return await self.client.read(queries.page, TABLES[kind], *arguments, records=records)

    async def list_conversations(self, page: ConversationPage) -> Sequence[Row]:
        by, owner, where, limit, after, user_id = page
        conditions: dict[str, Any] = {"true": None} if by is None else {f"{by} = ?": owner}
        if where:
            conditions["jazzmine_contains(body, 'metadata', ?)"] = json.dumps(where)
        if user_id is not None:
            conditions["user_id = ?"] = user_id
        # How many rows a condition passes over is not known.
        records = None if where else limit
        about = "last_updated_at DESC", conditions, limit, after
        return await self._page("conversations", records, *about)

    async def list_messages(self, page: MessagePage) -> Sequence[Row]:
        by, owner, limit, after = page
        about = "timestamp ASC", {f"{by} = ?": owner}, limit, after
        return await self._page("messages", limit, *about)

    async def next_messages(self, conversation_id: str, cursor: Any, size: int) -> Batch:
        time, seq = cursor or (MIN_INT, 0)
        limit = limit_of(size)
        rows = await self._rows(size, queries.NEXT_MESSAGES, conversation_id, time, seq, limit)
        return Batch(rows, tuple(rows[-1][2:]) if rows else cursor)

    async def list_newest(self, page: NewestPage) -> Sequence[Row]:
        owner, flagged, limit, after = page
        conditions = {"conversation_id = ?": owner, queries.SHOWN[flagged]: None}
        return await self._page("messages", limit, "timestamp DESC", conditions, limit, after)

    async def count_messages(self, conversation_ids: Sequence[str]) -> dict[str, int]:
        return await self.client.read(queries.count_messages, conversation_ids, records=None)

    async def list_conversation_traces(self, conversation_id: str) -> Sequence[Row]:
        return await self._rows(None, queries.TRACES_OF_CONVERSATION, conversation_id)

    async def find_traces(self, page: TracePage) -> Sequence[Row]:
        return await self.client.read(trace_queries.find_traces, page, records=None)

    async def summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        return await self.client.read(trace_queries.summarize, where, by, records=None)

    async def iter_stored(
        self, kinds: Sequence[RecordKind], size: int
    ) -> AsyncIterator[tuple[RecordKind, Sequence[Row]]]:
        for kind in kinds:
            statement, last = queries.NEXT_STORED[kind], MIN_INT
            while rows := await self._rows(size, statement, last, size):
                last = rows[-1][2]
                yield kind, rows

    # Search

    async def search_state(self) -> SearchState | None:
        return await self.client.read(search.read_state)

    async def prepare_search(self) -> SearchState | None:
        state, has_pending = await self.client.read(search.read_state_and_pending)
        if has_pending:
            await self.client.write(search.index_pending)
            self.client.database.has_search = True
        return state

    async def make_search(self, language: str | None) -> None:
        await self.client.write(search.make, language, self.indexed_at_once)
        self.client.database.has_search = language is not None

    async def fill_search(self, size: int) -> tuple[int, int]:
        return await self.client.write(search.fill, size)

    async def count_unindexed(self) -> int:
        return await self.client.read(search.count_unindexed)

    async def count_found(self, clauses: Sequence[Clause], scope: SearchScope) -> Counts:
        return await self.client.read(search_queries.count_found, clauses, scope, records=None)

    async def list_found(self, page: FoundPage) -> Sequence[Row]:
        return await self.client.read(search_queries.list_found, page, records=None)


class SQLiteMessageStore(MessageStore):
    """A message store in an SQLite database, which several processes of a machine may share.

    A write returns when the disk holds it, and writes that arrive at once share one
    transaction. Reads never wait for writes.
    """

    def __init__(self, config: SQLiteConfig, client: SQLiteClient | None = None) -> None:
        SQLiteConfig.require(config)
        backend = SQLiteBackend(
            client or file_client(config, MESSAGE_TABLES), config.search_language
        )
        super().__init__(backend, record_codec(config))
