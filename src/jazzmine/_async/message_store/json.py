"""The message store in one JSON file."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar
from uuid import UUID

from jazzmine._async.batcher import Batcher
from jazzmine._async.message_store.base import MessageStore
from jazzmine._async.message_store.hooks import ConversationOwner, MessageOwner, TraceKey
from jazzmine._compat.async_concurrency import run_blocking
from jazzmine.backends.json.file import JSONFile
from jazzmine.backends.json.lines import read_conversation, read_message, read_trace
from jazzmine.backends.json.log_changes import append, create, erase, fork, pop, prune, rewind
from jazzmine.backends.json.pending_changes import PendingChanges
from jazzmine.backends.json.queries import (
    candidate_rows,
    newest_rows,
    old_conversations,
    traces_found,
)
from jazzmine.backends.json.record_reader import RecordReader
from jazzmine.backends.json.tables import ConversationRow, Index, MessageRow, Row, Tables, TraceRow
from jazzmine.backends.trace_queries import summarize
from jazzmine.config import JSONStoreConfig
from jazzmine.records.base import Record, RecordKind, Snapshot
from jazzmine.records.conversation_log import Erased
from jazzmine.records.log import AnyMessage
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

__all__ = ["JSONMessageStore"]

T = TypeVar("T")
AnyRecord = TypeVar("AnyRecord", bound=Record)
AnyRow = TypeVar("AnyRow", bound=Row)


class JSONMessageStore(MessageStore):
    """A message store in one JSON file, which several processes may share.

    Records are read from memory. A write returns after the file is on the disk; concurrent
    writes share one replacement of the file, which takes time proportional to its size.
    """

    _system_name = "jazzmine.json"

    def __init__(self, config: JSONStoreConfig) -> None:
        JSONStoreConfig.require(config)
        super().__init__()
        self._config = config
        self._begin(os.fspath(config.path))

    def _begin(self, path: str) -> None:
        config = self._config
        self._file = JSONFile(path, config.fsync, config.lock_timeout)
        self._writes = Batcher(self._file.commit)
        self._conversation_of = RecordReader(read_conversation)
        self._message_of = RecordReader(read_message)
        self._trace_of = RecordReader(read_trace)

    def _after_fork(self) -> None:
        # A lock that a thread of the parent held at the fork is never released in the child.
        self._file.after_fork()
        self._begin(self._file.path)

    async def _pending(self) -> list[str]:
        path = self._file.path
        return [] if await run_blocking(os.path.exists, path) else [f"create the file {path}"]

    async def _open(self) -> None:
        await run_blocking(self._file.open)

    async def _close(self) -> None:
        await self._writes.close()
        await run_blocking(self._file.close)

    async def _ping(self) -> None:
        await self._fresh()

    async def _fresh(self) -> None:
        """Update the tables to the file, after the writes that have begun are finished."""
        if self._writes.unsettled:
            await self._writes.settle()
        if self._file.changed():
            await run_blocking(self._file.refresh)

    async def _read(self, query: Callable[[Tables], T]) -> T:
        """Query up-to-date tables, while no other thread can change them."""
        if self._writes.unsettled or self._file.changed():
            await self._fresh()
        with self._file.lock:
            return query(self._file.tables)

    def _listing(self, rows: Sequence[AnyRow], reader: RecordReader[AnyRecord]) -> list[AnyRecord]:
        return self._repairs.listing(rows, reader.once, attrgetter("id"))

    # Conversations

    async def _get_conversation(self, conversation_id: str) -> Conversation | None:
        row = await self._read(lambda tables: tables.conversations.get(conversation_id))
        return None if row is None else self._conversation_of.again(row)

    async def _list_conversations(
        self, by: ConversationOwner, owner: str, limit: int | None, after: str | None
    ) -> list[Conversation]:
        def page(tables: Tables) -> list[ConversationRow]:
            index = tables.conversations_by[by]
            return index.last(owner, limit, _after_row(index, owner, tables.conversations, after))

        return self._listing(await self._read(page), self._conversation_of)

    async def _delete_conversation(self, conversation_id: str) -> bool:
        return bool(
            await self._writes.run(lambda changes: changes.delete_conversation(conversation_id))
        )

    # Messages

    async def _get_message(self, message_id: str) -> Message | None:
        if self._writes.unsettled or self._file.changed():
            await self._fresh()
        # One look-up needs no lock, and this is the most frequent read.
        row = self._file.tables.messages.get(message_id)
        return None if row is None else self._message_of.again(row)

    async def _get_messages(self, message_ids: Sequence[str]) -> list[Message]:
        rows = await self._read(lambda tables: list(map(tables.messages.get, message_ids)))
        return self._listing([row for row in rows if row is not None], self._message_of)

    async def _list_messages(
        self, by: MessageOwner, owner: str, limit: int | None, after: str | None
    ) -> list[Message]:
        def page(tables: Tables) -> list[MessageRow]:
            index = tables.messages_by[by]
            return index.first(owner, limit, _after_row(index, owner, tables.messages, after))

        return self._listing(await self._read(page), self._message_of)

    async def _iter_batches(self, conversation_id: str, size: int) -> AsyncIterator[list[Message]]:
        # Its row is kept: the message may be deleted before the next batch.
        last: MessageRow | None = None

        def page(tables: Tables) -> list[MessageRow]:
            return tables.messages_by["conversation_id"].first(conversation_id, size, last)

        while rows := await self._read(page):
            last = rows[-1]
            yield self._listing(rows, self._message_of)

    async def _list_newest(
        self, conversation_id: str, calls: bool, limit: int, after: str | None
    ) -> list[Message]:
        rows = await self._read(
            lambda tables: newest_rows(tables, conversation_id, calls, limit, after)
        )
        return self._listing(rows, self._message_of)

    async def _delete_message(self, message_id: str) -> bool:
        return bool(await self._writes.run(lambda changes: changes.delete_message(message_id)))

    async def _flag_message(self, message_id: str, flagged: bool) -> bool:
        return bool(
            await self._writes.run(lambda changes: changes.flag_message(message_id, flagged))
        )

    # A conversation as a log

    async def _create_conversation(self, conversation: Snapshot[Conversation]) -> Conversation:
        # Most of them exist already, which a read finds without the lock of the file.
        stored = await self._get_conversation(conversation.record.id)
        if stored is not None:
            return stored
        line: bytes = await self._writes.run(lambda draft: create(draft, conversation))
        return read_conversation(line)

    async def _append(
        self,
        conversation_id: str,
        messages: Sequence[Snapshot[Message]],
        expected_last: str | AnyMessage | None,
    ) -> list[Message]:
        lines: list[bytes] = await self._writes.run(
            lambda draft: append(draft, conversation_id, messages, expected_last)
        )
        return list(map(read_message, lines))

    async def _pop(self, conversation_id: str) -> Message | None:
        message: Message | None = await self._writes.run(lambda draft: pop(draft, conversation_id))
        return message

    async def _rewind(self, conversation_id: str, after: str | None) -> int:
        deleted: int = await self._writes.run(lambda draft: rewind(draft, conversation_id, after))
        return deleted

    async def _fork(
        self, conversation_id: str, until: str | None, copy: Snapshot[Conversation], salt: UUID
    ) -> dict[str, str]:
        ids: dict[str, str] = await self._writes.run(
            lambda draft: fork(draft, conversation_id, until, copy, salt)
        )
        return ids

    async def _erase(self, user_id: str, limit: int) -> Erased:
        def erase_all(draft: PendingChanges) -> Erased:
            erased = erase(draft, user_id)
            if not any(erased):
                # Nothing is written, which would replace what a killed process has left.
                self._file.remove_leftover()
            return erased

        erased: Erased = await self._writes.run(erase_all)
        return erased

    async def _iter_old(self, before: int, size: int) -> AsyncIterator[list[str]]:
        yield await self._read(lambda tables: old_conversations(tables, before))

    async def _prune(self, ids: list[str], before: int, limit: int) -> tuple[int, int]:
        pruned: int = await self._writes.run(lambda draft: prune(draft, ids, before))
        return pruned, len(ids)

    # Traces

    async def _get_trace(self, by: TraceKey, key: str) -> TurnTrace | None:
        def find(tables: Tables) -> TraceRow | None:
            return (tables.traces if by == "id" else tables.trace_of_message).get(key)

        row = await self._read(find)
        return None if row is None else self._trace_of.again(row)

    async def _list_conversation_traces(self, conversation_id: str) -> list[TurnTrace]:
        rows = await self._read(
            lambda tables: tables.traces_by_turn.first(conversation_id, None, None)
        )
        return self._listing(rows, self._trace_of)

    async def _list_agent_traces(self, agent_id: str, limit: int, offset: int) -> list[TurnTrace]:
        rows = await self._read(
            lambda tables: tables.traces_by_agent.last(agent_id, offset + limit, None)[offset:]
        )
        return self._listing(rows, self._trace_of)

    async def _store_turn(
        self,
        conversation: Snapshot[Conversation] | None,
        messages: Sequence[Snapshot[Message]],
        trace: Snapshot[TurnTrace] | None,
    ) -> None:
        def put(changes: PendingChanges) -> None:
            if conversation is not None:
                changes.put_conversation(conversation)
            changes.put_messages(messages)
            if trace is not None:
                changes.put_trace(trace)

        await self._writes.run(put)

    async def _find_traces(
        self, where: TraceFilter, limit: int, after: str | None
    ) -> list[TurnTrace]:
        rows = await self._read(lambda tables: candidate_rows(tables, where, after))
        return await run_blocking(traces_found, rows, where, limit, self._repairs)

    async def _summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        rows = await self._read(lambda tables: candidate_rows(tables, where, None))
        return await run_blocking(
            lambda: summarize(traces_found(rows, where, None, self._repairs), by)
        )

    # All records

    async def _list_all_conversations(
        self, limit: int | None, after: str | None
    ) -> list[Conversation]:
        def page(tables: Tables) -> list[ConversationRow]:
            index = tables.conversations_by_update
            return index.last("", limit, _after_row(index, "", tables.conversations, after))

        return self._listing(await self._read(page), self._conversation_of)

    async def _iter_stored(self, kind: RecordKind, size: int) -> AsyncIterator[list[Any]]:
        readers: dict[RecordKind, RecordReader[Any]] = {
            "conversations": self._conversation_of,
            "messages": self._message_of,
            "traces": self._trace_of,
        }
        rows = await self._read(lambda tables: list(getattr(tables, kind).values()))
        for begin in range(0, len(rows), size):
            yield self._listing(rows[begin : begin + size], readers[kind])

    async def _store_many(
        self,
        conversations: Sequence[Snapshot[Conversation]],
        messages: Sequence[Snapshot[Message]],
        traces: Sequence[Snapshot[TurnTrace]],
    ) -> None:
        def put(draft: PendingChanges) -> None:
            for conversation in conversations:
                draft.put_conversation(conversation)
            draft.put_messages(messages)
            for trace in traces:
                draft.put_trace(trace)

        await self._writes.run(put)


def _after_row(
    index: Index[AnyRow], group: str, rows: dict[str, Any], after: str | None
) -> AnyRow | None:
    return None if after is None else index.member(group, rows.get(after), after)
