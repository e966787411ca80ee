"""The message store in an SQLite database, in a file or in the memory of the process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from jazzmine._sync.clients.sqlite import SQLiteClient, file_client, reading, writing
from jazzmine._sync.message_store.backend import Batch, MessageBackend, TraceKey
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.backends.sqlite import erasure, log_changes, queries, search, search_queries, writes
from jazzmine.backends.sqlite import traces as trace_queries
from jazzmine.backends.sqlite.memory_database import MemoryDatabase
from jazzmine.backends.sqlite.queries import limit_of
from jazzmine.backends.sqlite.rows import MESSAGE_TABLES, TABLES
from jazzmine.config import MemoryMessagesConfig, SQLiteConfig
from jazzmine.encryption.records import record_codec
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.conversation_log import DeletedCounts
from jazzmine.records.hook_arguments import ConversationPage, MessagePage, NewestPage, Turn
from jazzmine.records.messages import Conversation
from jazzmine.records.rows import Row
from jazzmine.records.types import MIN_INT
from jazzmine.search.query import SearchState


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

    flag_message = writing(writes.flag_message)

    def delete_message(self, message_id: str) -> bool:
        return self.client.write(writes.delete, "messages", message_id)

    def delete_conversation(self, conversation_id: str) -> bool:
        return self.client.write(writes.delete, "conversations", conversation_id)

    def create_conversation(self, conversation: Snapshot[Conversation]) -> Row | None:
        # Most of them exist already, which a read finds without the lock of the database.
        stored = self.get_conversation(conversation.record.id)
        return stored or self.client.write(writes.create, conversation)

    move_user = writing(writes.move_user)
    rewrite = writing(writes.rewrite)

    def purge(self) -> None:
        self.client.purge()

    # A conversation as a log

    append = writing(log_changes.append)
    pop = writing(log_changes.pop)
    rewind = writing(log_changes.rewind)
    fork = writing(log_changes.fork)

    # Erasure and retention

    newest_sequence = reading(queries.newest_sequence)

    def erase(self, user_id: str, limit: int, newest: Any) -> DeletedCounts:
        erased = self.client.write(erasure.erase, user_id, limit, newest)
        if not any(erased):
            self.client.purge()
        return erased

    prune = writing(erasure.prune)

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

    count_messages = reading(queries.count_messages, None)

    def list_conversation_traces(self, conversation_id: str) -> Sequence[Row]:
        return self._rows(None, queries.TRACES_OF_CONVERSATION, conversation_id)

    find_traces = reading(trace_queries.find_traces, None)
    summarize = reading(trace_queries.summarize, None)

    def iter_stored(
        self, kinds: Sequence[RecordKind], size: int
    ) -> Iterator[tuple[RecordKind, Sequence[Row]]]:
        for kind in kinds:
            statement, last = queries.NEXT_STORED[kind], MIN_INT
            while rows := self._rows(size, statement, last, size):
                last = rows[-1][2]
                yield kind, rows

    # Search

    search_state = reading(search.read_state)

    def prepare_search(self) -> SearchState | None:
        state, has_pending = self.client.read(search.read_state_and_pending)
        if has_pending:
            self.client.write(search.index_pending)
            self.client.database.has_search = True
        return state

    def make_search(self, language: str | None) -> None:
        self.client.write(search.make, language)
        self.client.database.has_search = language is not None

    fill_search = writing(search.fill)
    count_found = reading(search_queries.count_found, None)
    list_found = reading(search_queries.list_found, None)


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


class MemoryBackend(SQLiteBackend):
    """Messages in a database in memory."""

    system_name = "jazzmine.memory"


class InMemoryMessageStore(MessageStore):
    """A message store without a file, for tests and for agents that are not kept.

    Its records belong to this object alone, and end with it.
    """

    def __init__(self, config: MemoryMessagesConfig | None = None) -> None:
        config = config or MemoryMessagesConfig()
        backend = MemoryBackend(
            SQLiteClient(MemoryDatabase(MESSAGE_TABLES)), config.search_language
        )
        super().__init__(backend, record_codec(config))
