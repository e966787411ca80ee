"""The message store in an SQLite database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from jazzmine._sync.clients.sqlite import SQLiteClient, file_client
from jazzmine._sync.message_store.backend import Batch, TraceKey
from jazzmine._sync.message_store.searching import settle_search
from jazzmine._sync.message_store.sqlite_search import SQLiteSearch
from jazzmine._sync.message_store.store import MessageStore
from jazzmine._compat.concurrency import sync_run_blocking as run_blocking
from jazzmine.backends.sqlite import erasure, log_changes, queries, writes
from jazzmine.backends.sqlite import statements as sql
from jazzmine.backends.sqlite import traces as trace_queries
from jazzmine.backends.sqlite.queries import limit_of
from jazzmine.backends.sqlite.schema import MESSAGE_TABLES
from jazzmine.config import SQLiteConfig
from jazzmine.encryption.records import record_codec
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.conversation_log import DeletedCounts, Refusal, forked_id
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

__all__ = ["SQLiteBackend", "SQLiteMessageStore"]

T = TypeVar("T")

_TABLES: dict[RecordKind, str] = {
    "conversations": "stored_conversations",
    "messages": "stored_messages",
    "traces": "stored_turn_traces",
}


class SQLiteBackend(SQLiteSearch):
    """Messages in an SQLite database.

    Small reads are done at once, and all others in a thread; writes in the batcher's thread.

    Args:
        client: runs its queries and changes.
        search: the language of the index that a new store gets, or None.
    """

    system_name = "sqlite"

    # All other writes wait for each step, and not just those of its records.
    deleted_at_once: int = 50

    def pending(self) -> list[str]:
        """Return what opening the database would create or change."""
        return self.client.pending()

    def open(self) -> None:
        """Create the file and the tables if they do not exist."""
        self.client.open()
        try:
            settle_search(self, self._search)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Finish the writes, and close the file."""
        self.client.close()

    def ping(self) -> None:
        """Read a row."""
        self.client.read(lambda connection, _: connection.execute(sql.PING).fetchone())

    def _row(self, statement: str, key: str) -> Row | None:
        return self.client.read(partial(queries.row, statement, key))

    def _rows(
        self, records: int | None, query: Callable[..., Iterable[Row]], *arguments: object
    ) -> list[Row]:
        return self.client.read(partial(queries.within, query, arguments), records)

    # Writes

    def store(self, turn: Turn) -> None:
        """Store some records in one transaction."""
        self.client.write(partial(writes.put, turn=turn))

    def flag_message(self, message_id: str, flagged: bool) -> bool:
        """Set a message's flag."""

        def flag(connection: sqlite3.Connection) -> bool:
            parameters = {"id": message_id, "flagged": flagged}
            if connection.execute(sql.FLAG_MESSAGE, parameters).rowcount:
                return True
            return connection.execute(sql.MESSAGE, [message_id]).fetchone() is not None

        return self.client.write(flag)

    def delete_message(self, message_id: str) -> bool:
        """Delete a message."""
        deleted = self.client.write(
            lambda connection: connection.execute(sql.DELETE_MESSAGE, [message_id]).rowcount,
        )
        return bool(deleted)

    def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation."""

        def delete(connection: sqlite3.Connection) -> bool:
            # In a JSON file of jazzmine 0.1, there may be messages without their conversation.
            connection.execute(sql.DELETE_MESSAGES, [conversation_id])
            return bool(connection.execute(sql.DELETE_CONVERSATION, [conversation_id]).rowcount)

        return self.client.write(delete)

    def create_conversation(self, conversation: Snapshot[Conversation]) -> Row | None:
        """Store a conversation if there is none with its id."""
        # Most of them exist already, which a read finds without the lock of the database.
        stored = self.get_conversation(conversation.record.id)
        if stored is not None:
            return stored
        return self.client.write(lambda connection: writes.create(connection, conversation))

    def move_user(self, from_user_id: str, to_user_id: str) -> int:
        """Make all records of one user another's."""
        return self.client.write(
            lambda connection: writes.move_user(connection, from_user_id, to_user_id)
        )

    def rewrite(
        self,
        kind: RecordKind,
        ids: Sequence[str],
        change: Callable[[Row], Snapshot[Any] | None],
    ) -> Sequence[str]:
        """Store other versions of records in one transaction."""
        return self.client.write(
            lambda connection: writes.rewrite(connection, kind, ids, change),
        )

    def purge(self) -> None:
        """Remove what was deleted or replaced from the files."""
        self.client.purge()

    # A conversation as a log

    def append(self, given: Append) -> int | Refusal:
        """Append messages in one transaction."""
        return self.client.write(
            lambda connection: log_changes.append(connection, given),
        )

    def pop(
        self, conversation_id: str, check: Callable[[Row], object], *, checks_all: bool = False
    ) -> Row | None:
        """Delete the newest message, and return it."""
        return self.client.write(
            lambda connection: log_changes.pop(connection, conversation_id, check),
        )

    def rewind(self, conversation_id: str, after: str | None) -> int:
        """Delete the messages after one."""
        return self.client.write(
            lambda connection: log_changes.rewind(connection, conversation_id, after),
        )

    def fork(self, fork: Fork) -> dict[str, str]:
        """Copy messages and traces in one transaction."""
        ids = self.client.write(
            lambda connection: log_changes.fork(connection, fork),
        )
        # Of many messages, this takes too long for the event loop, and for the lock above.
        return run_blocking(_forked_ids, fork.salt, ids)

    # Erasure and retention

    def newest_sequence(self) -> tuple[int, int, int]:
        """Return the numbers of the records that were first stored last."""
        row = self.client.read(
            lambda connection, _: connection.execute(sql.NEWEST_SEQUENCES).fetchone()
        )
        conversation, message, trace = row
        return conversation or 0, message or 0, trace or 0

    def erase(self, user_id: str, limit: int, newest: Any) -> DeletedCounts:
        """Delete some of a user's records; in the end, what is left of them in the files."""
        erased = self.client.write(
            lambda connection: erasure.erase(connection, user_id, limit, newest)
        )
        if not any(erased):
            self.client.purge()
        return erased

    def prune(self, conversations: Sequence[Row], before: int, limit: int) -> tuple[int, int]:
        """Delete some of the records of old conversations."""
        return self.client.write(
            lambda connection: erasure.prune(connection, conversations, before, limit),
        )

    def iter_old(
        self, before: int, size: int, user_id: str | None = None
    ) -> Iterator[Sequence[Row]]:
        """Yield the rows of old conversations."""
        cursor: Sequence[Any] = (MIN_INT, 0)
        statement, of_user = sql.OLD_CONVERSATIONS, list[str]()
        if user_id is not None:
            statement, of_user = sql.OLD_CONVERSATIONS_OF_USER, [user_id]
        while True:
            parameters = [before, *cursor, *of_user, before, size]
            rows = self._rows(None, queries.rows, statement, parameters)
            if not rows:
                return
            cursor = (rows[-1][2], rows[-1][3])
            yield rows

    # Reads

    def get_conversation(self, conversation_id: str) -> Row | None:
        """Return the row of a conversation."""
        return self._row(sql.CONVERSATION, conversation_id)

    def get_message(self, message_id: str) -> Row | None:
        """Return the row of a message."""
        return self._row(sql.MESSAGE, message_id)

    def get_trace(self, by: TraceKey, key: str) -> Row | None:
        """Return the row of a trace."""
        return self._row(sql.TRACE if by == "id" else sql.TRACE_OF_MESSAGE, key)

    def get_messages(self, message_ids: Sequence[str]) -> Sequence[Row]:
        """Return the rows of some messages."""
        return self._rows(len(message_ids), queries.messages_by_ids, message_ids)

    def list_conversations(self, page: ConversationPage) -> Sequence[Row]:
        """Return a page of conversations."""
        by, owner, where, limit, after, user_id = page
        listing = queries.CONVERSATIONS_BY[by, bool(where), user_id is not None]
        parameters = [owner, *([json.dumps(where)] if where else [])]
        parameters += [] if user_id is None else [user_id]
        records = None if where else limit
        return self._rows(records, queries.page, listing, parameters, limit, after)

    def list_messages(self, page: MessagePage) -> Sequence[Row]:
        """Return a page of messages."""
        by, owner, limit, after = page
        return self._rows(limit, queries.page, queries.MESSAGES_BY[by], [owner], limit, after)

    def next_messages(self, conversation_id: str, cursor: Any, size: int) -> Batch:
        """Return the messages after a cursor."""
        parameters = [conversation_id, *(cursor or (MIN_INT, 0)), limit_of(size)]
        rows = self._rows(size, queries.rows, sql.NEXT_MESSAGES, parameters)
        return Batch(rows, tuple(rows[-1][2:]) if rows else cursor)

    def list_newest(self, page: NewestPage) -> Sequence[Row]:
        """Return a page of messages, newest first."""
        owner, flagged, limit, after = page
        return self._rows(limit, queries.page, queries.NEWEST[flagged], [owner], limit, after)

    def count_messages(self, conversation_ids: Sequence[str]) -> dict[str, int]:
        """Return how many messages some conversations have."""
        return self.client.read(
            lambda connection, _: queries.count_messages(connection, conversation_ids), None
        )

    def list_conversation_traces(self, conversation_id: str) -> Sequence[Row]:
        """Return all traces of a conversation."""
        parameters = [conversation_id]
        return self._rows(None, queries.rows, sql.TRACES_OF_CONVERSATION, parameters)

    def find_traces(self, page: TracePage) -> Sequence[Row]:
        """Return a page of the traces that match."""
        return self._rows(None, trace_queries.find_traces, page)

    def summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        """Return the sums of the traces that match."""
        return self.client.read(
            lambda connection, _: trace_queries.summarize(connection, where, by),
            None,
        )

    def iter_stored(
        self, kinds: Sequence[RecordKind], size: int
    ) -> Iterator[tuple[RecordKind, Sequence[Row]]]:
        """Yield all records of some kinds."""
        for kind in kinds:
            statement, last = sql.next_stored(_TABLES[kind]), MIN_INT
            while rows := self._rows(size, queries.rows, statement, [last, size]):
                last = rows[-1][2]
                yield kind, rows


def _forked_ids(salt: UUID, ids: Sequence[str]) -> dict[str, str]:
    return {message_id: forked_id(salt, message_id) for message_id in ids}


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
