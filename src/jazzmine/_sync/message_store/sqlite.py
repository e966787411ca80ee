"""The message store in an SQLite database."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from jazzmine._sync.batcher import Batcher
from jazzmine._sync.message_store.base import MessageStore
from jazzmine._sync.message_store.hooks import ConversationOwner, MessageOwner, TraceKey
from jazzmine._compat.sync_concurrency import run_blocking
from jazzmine.backends.sqlite import erasure, log_changes, queries, writes
from jazzmine.backends.sqlite import statements as sql
from jazzmine.backends.sqlite import traces as trace_queries
from jazzmine.backends.sqlite.database import Database
from jazzmine.backends.sqlite.errors import DatabaseBusy
from jazzmine.backends.sqlite.rows import CONVERSATIONS, MESSAGES, TRACES, RecordRows, Row
from jazzmine.backends.sqlite.schema import MESSAGE_TABLES
from jazzmine.backends.sqlite.transaction import UnflushedWrite, write_unchanged
from jazzmine.config import SQLiteConfig
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.conversation_log import Erased
from jazzmine.records.log import AnyMessage
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

__all__ = ["SQLiteMessageStore"]

T = TypeVar("T")

# A read of so many records takes no longer than passing it to a thread and back would.
_FEW_RECORDS = 50


class SQLiteMessageStore(MessageStore):
    """A message store in an SQLite database, which several processes of a machine may share.

    A write returns when the disk holds it, and writes that arrive at once share one
    transaction. Reads never wait for writes.
    """

    _system_name = "sqlite"

    # All other writes wait for each step, and not just those of its records.
    _smallest_step = 10

    def __init__(self, config: SQLiteConfig) -> None:
        SQLiteConfig.require(config)
        super().__init__()
        self._config = config
        self._begin(os.fspath(config.path))

    def _begin(self, path: str) -> None:
        config = self._config
        self._database = Database(path, MESSAGE_TABLES, config.timeout, config.synchronous)
        self._writes = Batcher(self._database.commit)

    def _after_fork(self) -> None:
        # The locks that the parent's threads held at the fork are held for ever in the child.
        self._begin(self._database.path)

    def _pending(self) -> list[str]:
        return run_blocking(self._database.pending)

    def _open(self) -> None:
        run_blocking(self._database.open)

    def _close(self) -> None:
        self._writes.close()
        run_blocking(self._database.close)

    def _ping(self) -> None:
        self._read(lambda connection: connection.execute(sql.PING).fetchone())

    def _read(self, query: Callable[[sqlite3.Connection], T], records: int | None = 1) -> T:
        """Return the result of a query that reads up to `records` records, None for any number."""
        if self._writes.unsettled:
            self._writes.settle()
        if records is not None and records <= _FEW_RECORDS:
            try:
                return self._database.read_now(query)
            except DatabaseBusy:
                pass
        found: T = run_blocking(self._database.read, query)
        return found

    def _row(self, statement: str, key: str) -> Row | None:
        row: Row | None = self._read(
            lambda connection: connection.execute(statement, [key]).fetchone()
        )
        return row

    # Conversations

    def _get_conversation(self, conversation_id: str) -> Conversation | None:
        row = self._row(sql.CONVERSATION, conversation_id)
        return None if row is None else CONVERSATIONS.record(row, self._repairs)

    def _list_conversations(
        self, by: ConversationOwner, owner: str, limit: int | None, after: str | None
    ) -> list[Conversation]:
        def page(connection: sqlite3.Connection) -> list[Conversation]:
            rows = queries.page(connection, queries.CONVERSATIONS_BY[by], owner, limit, after)
            return CONVERSATIONS.records(rows, self._repairs)

        return self._read(page, limit)

    def _delete_conversation(self, conversation_id: str) -> bool:
        return self._delete(sql.DELETE_CONVERSATION, conversation_id)

    # Messages

    def _get_message(self, message_id: str) -> Message | None:
        row = self._row(sql.MESSAGE, message_id)
        return None if row is None else MESSAGES.record(row, self._repairs)

    def _get_messages(self, message_ids: Sequence[str]) -> list[Message]:
        def find(connection: sqlite3.Connection) -> list[Message]:
            rows = queries.messages_by_ids(connection, message_ids)
            return MESSAGES.records(rows, self._repairs)

        return self._read(find, len(message_ids))

    def _list_messages(
        self, by: MessageOwner, owner: str, limit: int | None, after: str | None
    ) -> list[Message]:
        def page(connection: sqlite3.Connection) -> list[Message]:
            rows = queries.page(connection, queries.MESSAGES_BY[by], owner, limit, after)
            return MESSAGES.records(rows, self._repairs)

        return self._read(page, limit)

    def _iter_batches(self, conversation_id: str, size: int) -> Iterator[list[Message]]:
        # The place of the last one is known, even if it is deleted before the next batch.
        cursor: Row = (queries.MIN_INT, 0)

        def batch(connection: sqlite3.Connection) -> tuple[Row | None, list[Message]]:
            parameters = [conversation_id, *cursor, queries.limit_of(size)]
            rows = connection.execute(sql.NEXT_MESSAGES, parameters).fetchall()
            return (rows[-1][2:] if rows else None), MESSAGES.records(rows, self._repairs)

        while True:
            last, messages = self._read(batch, size)
            if last is None:
                return
            cursor = last
            yield messages

    def _list_newest(
        self, conversation_id: str, calls: bool, limit: int, after: str | None
    ) -> list[Message]:
        def page(connection: sqlite3.Connection) -> list[Message]:
            if after is None and not calls and limit <= _FEW_RECORDS:
                messages = queries.newest_readable(connection, conversation_id, limit)
                if messages is not None:
                    return messages
            rows = queries.newest(connection, conversation_id, calls, limit, after)
            return MESSAGES.records(rows, self._repairs)

        return self._read(page, limit)

    def _delete_message(self, message_id: str) -> bool:
        return self._delete(sql.DELETE_MESSAGE, message_id)

    def _flag_message(self, message_id: str, flagged: bool) -> bool:
        return bool(
            self._writes.run(
                lambda connection: writes.flag_message(
                    connection, message_id, flagged, self._repairs
                )
            )
        )

    def _delete(self, statement: str, record_id: str) -> bool:
        return bool(
            self._writes.run(
                lambda connection: writes.delete(connection, statement, record_id)
            )
        )

    # A conversation as a log

    def _create_conversation(self, conversation: Snapshot[Conversation]) -> Conversation:
        # Most of them exist already, which a read finds without the lock of the database.
        stored = self._get_conversation(conversation.record.id)
        if stored is not None:
            return stored
        row: Row = self._writes.run(
            lambda connection: log_changes.create(connection, conversation)
        )
        return CONVERSATIONS.record(row, self._repairs)

    def _append(
        self,
        conversation_id: str,
        messages: Sequence[Snapshot[Message]],
        expected_last: str | AnyMessage | None,
    ) -> list[Message]:
        appended: list[Message] = self._writes.run(
            lambda connection: log_changes.append(
                connection, conversation_id, messages, expected_last, self._repairs
            )
        )
        return appended

    def _pop(self, conversation_id: str) -> Message | None:
        message: Message | None = self._writes.run(
            lambda connection: log_changes.pop(connection, conversation_id, self._repairs)
        )
        return message

    def _rewind(self, conversation_id: str, after: str | None) -> int:
        deleted: int = self._writes.run(
            lambda connection: log_changes.rewind(connection, conversation_id, after)
        )
        return deleted

    def _fork(
        self, conversation_id: str, until: str | None, copy: Snapshot[Conversation], salt: UUID
    ) -> dict[str, str]:
        ids: dict[str, str] = self._writes.run(
            lambda connection: log_changes.fork(
                connection, conversation_id, until, copy, salt, self._repairs
            )
        )
        return ids

    def _erase(self, user_id: str, limit: int) -> Erased:
        # Others wait for the lock of the database, so not for the disk as well: it is flushed once.
        erased: Erased = self._writes.run(
            UnflushedWrite(lambda connection: erasure.erase(connection, user_id, limit))
        )
        if not any(erased):
            self._writes.run(write_unchanged)
            run_blocking(self._database.empty_log)
        return erased

    def _iter_old(self, before: int, size: int) -> Iterator[list[str]]:
        cursor: Row = (queries.MIN_INT, 0)

        def page(connection: sqlite3.Connection) -> list[Row]:
            parameters = [before, *cursor, before, size]
            return connection.execute(sql.OLD_CONVERSATIONS, parameters).fetchall()

        while rows := self._read(page, None):
            cursor = rows[-1][1:]
            yield [str(row[0], "utf-8") for row in rows]

    def _prune(self, ids: list[str], before: int, limit: int) -> tuple[int, int]:
        pruned, done = self._writes.run(
            UnflushedWrite(lambda connection: erasure.prune(connection, ids, before, limit))
        )
        if done == len(ids):
            self._writes.run(write_unchanged)
        return pruned, done

    # Traces

    def _get_trace(self, by: TraceKey, key: str) -> TurnTrace | None:
        row = self._row(sql.TRACE if by == "id" else sql.TRACE_OF_MESSAGE, key)
        return None if row is None else TRACES.record(row, self._repairs)

    def _list_conversation_traces(self, conversation_id: str) -> list[TurnTrace]:
        return self._traces(sql.TRACES_OF_CONVERSATION, conversation_id)

    def _list_agent_traces(self, agent_id: str, limit: int, offset: int) -> list[TurnTrace]:
        count, skipped = queries.limit_of(limit), queries.limit_of(offset)
        return self._traces(sql.TRACES_OF_AGENT, agent_id, count, skipped)

    def _traces(self, statement: str, *parameters: str | int) -> list[TurnTrace]:
        def find(connection: sqlite3.Connection) -> list[TurnTrace]:
            rows = connection.execute(statement, parameters).fetchall()
            return TRACES.records(rows, self._repairs)

        return self._read(find, None)

    def _store_turn(
        self,
        conversation: Snapshot[Conversation] | None,
        messages: Sequence[Snapshot[Message]],
        trace: Snapshot[TurnTrace] | None,
    ) -> None:
        def put(connection: sqlite3.Connection) -> None:
            if conversation is not None:
                writes.put_conversation(connection, conversation)
            if messages:
                writes.put_messages(connection, messages)
            if trace is not None:
                writes.put_trace(connection, trace)

        self._writes.run(put)

    def _find_traces(
        self, where: TraceFilter, limit: int, after: str | None
    ) -> list[TurnTrace]:
        return self._read(
            lambda connection: trace_queries.find_traces(
                connection, where, limit, after, self._repairs
            ),
            None,
        )

    def _summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        return self._read(
            lambda connection: trace_queries.summarize(connection, where, by, self._repairs), None
        )

    # All records

    def _list_all_conversations(
        self, limit: int | None, after: str | None
    ) -> list[Conversation]:
        def page(connection: sqlite3.Connection) -> list[Conversation]:
            rows = queries.page(connection, queries.ALL_CONVERSATIONS, "", limit, after)
            return CONVERSATIONS.records(rows, self._repairs)

        return self._read(page, None)

    def _iter_stored(self, kind: RecordKind, size: int) -> Iterator[list[Any]]:
        tables: dict[RecordKind, tuple[str, RecordRows[Any]]] = {
            "conversations": ("stored_conversations", CONVERSATIONS),
            "messages": ("stored_messages", MESSAGES),
            "traces": ("stored_turn_traces", TRACES),
        }
        table, reader = tables[kind]
        last = queries.MIN_INT

        def batch(connection: sqlite3.Connection) -> list[Row]:
            return connection.execute(sql.next_stored(table), [last, size]).fetchall()

        while rows := self._read(batch, size):
            last = rows[-1][2]
            yield reader.records(rows, self._repairs)

    def _store_many(
        self,
        conversations: Sequence[Snapshot[Conversation]],
        messages: Sequence[Snapshot[Message]],
        traces: Sequence[Snapshot[TurnTrace]],
    ) -> None:
        def put(connection: sqlite3.Connection) -> None:
            for conversation in conversations:
                writes.put_conversation(connection, conversation)
            writes.put_messages(connection, messages)
            for trace in traces:
                writes.put_trace(connection, trace)

        self._writes.run(put)
