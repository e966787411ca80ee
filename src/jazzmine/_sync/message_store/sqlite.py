"""The message store in an SQLite database."""

from __future__ import annotations

import json
from collections.abc import Iterator, Callable, Sequence
from typing import Any, ClassVar

from jazzmine._sync.clients.sqlite import SQLiteClient, file_client
from jazzmine._sync.message_store.backend import Batch, MessageBackend, TraceKey
from jazzmine._sync.message_store.store import MessageStore
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

    def _row(self, statement: str, key: str) -> Row | None:
        return self.client.read(queries.row, statement, key)

    def _rows(self, records: int | None, statement: str, *parameters: Any) -> list[Row]:
        return self.client.read(queries.rows, statement, parameters, records=records)

    # Writes

    def store(self, turn: Turn) -> None:
        self.client.write(writes.put, *turn)

    def flag_message(self, message_id: str, flagged: bool) -> bool:
        return self.client.write(writes.flag_message, message_id, flagged)

    def delete_message(self, message_id: str) -> bool:
        return self.client.write(writes.delete, "messages", message_id)

    def delete_conversation(self, conversation_id: str) -> bool:
        return self.client.write(writes.delete, "conversations", conversation_id)

    def create_conversation(self, conversation: Snapshot[Conversation]) -> Row | None:
        # Most of them exist already, which a read finds without the lock of the database.
        stored = self.get_conversation(conversation.record.id)
        return stored or self.client.write(writes.create, conversation)

    def move_user(self, from_user_id: str, to_user_id: str) -> int:
        return self.client.write(writes.move_user, from_user_id, to_user_id)

    def rewrite(
        self,
        kind: RecordKind,
        ids: Sequence[str],
        change: Callable[[Row], Snapshot[Any] | None],
    ) -> Sequence[str]:
        return self.client.write(writes.rewrite, kind, ids, change)

    def purge(self) -> None:
        self.client.purge()

    # A conversation as a log

    def append(self, given: Append) -> int | Refusal:
        return self.client.write(log_changes.append, given)

    def pop(self, conversation_id: str, check: Callable[[Row], object]) -> Row | None:
        return self.client.write(log_changes.pop, conversation_id, check)

    def rewind(self, conversation_id: str, after: str | None) -> int:
        return self.client.write(log_changes.rewind, conversation_id, after)

    def fork(self, fork: Fork) -> dict[str, str]:
        return self.client.write(log_changes.fork, fork)

    # Erasure and retention

    def newest_sequence(self) -> tuple[int, int, int]:
        return self.client.read(queries.newest_sequence)

    def erase(self, user_id: str, limit: int, newest: Any) -> DeletedCounts:
        erased = self.client.write(erasure.erase, user_id, limit, newest)
        if not any(erased):
            self.client.purge()
        return erased

    def prune(self, conversations: Sequence[Row], before: int, limit: int) -> tuple[int, int]:
        return self.client.write(erasure.prune, conversations, before, limit)

    def iter_old(
        self, before: int, size: int, user_id: str | None = None
    ) -> Iterator[Sequence[Row]]:
        statement = queries.OLD_CONVERSATIONS[user_id is not None]
        values = {"before": before, "limit": size, "user": user_id, "time": MIN_INT, "seq": 0}
        while rows := self.client.read(queries.rows, statement, values, records=None):
            values |= {"time": rows[-1][2], "seq": rows[-1][3]}
            yield rows

    # Reads

    def get_conversation(self, conversation_id: str) -> Row | None:
        return self._row(queries.STORED["conversations"], conversation_id)

    def get_message(self, message_id: str) -> Row | None:
        return self._row(queries.STORED["messages"], message_id)

    def get_trace(self, by: TraceKey, key: str) -> Row | None:
        statement = queries.STORED["traces"] if by == "id" else queries.TRACE_OF_MESSAGE
        return self._row(statement, key)

    def get_messages(self, message_ids: Sequence[str]) -> Sequence[Row]:
        return self.client.read(
            queries.messages_by_ids, message_ids, records=len(message_ids)
        )

    def _page(self, kind: RecordKind, records: int | None, *arguments: Any) -> Sequence[Row]:
        return self.client.read(queries.page, TABLES[kind], *arguments, records=records)

    def list_conversations(self, page: ConversationPage) -> Sequence[Row]:
        by, owner, where, limit, after, user_id = page
        conditions: dict[str, Any] = {"true": None} if by is None else {f"{by} = ?": owner}
        if where:
            conditions["jazzmine_contains(body, 'metadata', ?)"] = json.dumps(where)
        if user_id is not None:
            conditions["user_id = ?"] = user_id
        # How many rows a condition passes over is not known.
        records = None if where else limit
        about = "last_updated_at DESC", conditions, limit, after
        return self._page("conversations", records, *about)

    def list_messages(self, page: MessagePage) -> Sequence[Row]:
        by, owner, limit, after = page
        about = "timestamp ASC", {f"{by} = ?": owner}, limit, after
        return self._page("messages", limit, *about)

    def next_messages(self, conversation_id: str, cursor: Any, size: int) -> Batch:
        time, seq = cursor or (MIN_INT, 0)
        limit = limit_of(size)
        rows = self._rows(size, queries.NEXT_MESSAGES, conversation_id, time, seq, limit)
        return Batch(rows, tuple(rows[-1][2:]) if rows else cursor)

    def list_newest(self, page: NewestPage) -> Sequence[Row]:
        owner, flagged, limit, after = page
        conditions = {"conversation_id = ?": owner, queries.SHOWN[flagged]: None}
        return self._page("messages", limit, "timestamp DESC", conditions, limit, after)

    def count_messages(self, conversation_ids: Sequence[str]) -> dict[str, int]:
        return self.client.read(queries.count_messages, conversation_ids, records=None)

    def list_conversation_traces(self, conversation_id: str) -> Sequence[Row]:
        return self._rows(None, queries.TRACES_OF_CONVERSATION, conversation_id)

    def find_traces(self, page: TracePage) -> Sequence[Row]:
        return self.client.read(trace_queries.find_traces, page, records=None)

    def summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        return self.client.read(trace_queries.summarize, where, by, records=None)

    def iter_stored(
        self, kinds: Sequence[RecordKind], size: int
    ) -> Iterator[tuple[RecordKind, Sequence[Row]]]:
        for kind in kinds:
            statement, last = queries.NEXT_STORED[kind], MIN_INT
            while rows := self._rows(size, statement, last, size):
                last = rows[-1][2]
                yield kind, rows

    # Search

    def search_state(self) -> SearchState | None:
        return self.client.read(search.read_state)

    def prepare_search(self) -> SearchState | None:
        state, has_pending = self.client.read(search.read_state_and_pending)
        if has_pending:
            self.client.write(search.index_pending)
            self.client.database.has_search = True
        return state

    def make_search(self, language: str | None) -> None:
        self.client.write(search.make, language, self.indexed_at_once)
        self.client.database.has_search = language is not None

    def fill_search(self, size: int) -> tuple[int, int]:
        return self.client.write(search.fill, size)

    def count_unindexed(self) -> int:
        return self.client.read(search.count_unindexed)

    def count_found(self, clauses: Sequence[Clause], scope: SearchScope) -> Counts:
        return self.client.read(search_queries.count_found, clauses, scope, records=None)

    def list_found(self, page: FoundPage) -> Sequence[Row]:
        return self.client.read(search_queries.list_found, page, records=None)


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
