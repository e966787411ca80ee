"""The smallest back end of a message store: the example for a new one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar
from uuid import UUID

from jazzmine import (
    AnyMessage,
    ConflictError,
    Conversation,
    Message,
    NotFoundError,
    TraceFilter,
    TurnTrace,
    UsageSummary,
)
from jazzmine.backends.trace_queries import matches, summarize
from jazzmine.sync.message_store import MessageStore
from jazzmine.records.base import Record, RecordKind, Snapshot
from jazzmine.records.context_window import CALLERS
from jazzmine.records.conversation_log import (
    Erased,
    Newest,
    forked_id,
    messages_to_append,
    unknown_conversation,
)
from jazzmine.records.usage import UsageKey
from tests.behaviour.toy_backend import Row, ToyConfig

__all__ = ["ToyMessageStore"]

AnyRecord = TypeVar("AnyRecord", bound=Record)


class ToyMessageStore(MessageStore):
    """A message store in three dicts."""

    _system_name = "toy"

    def __init__(self, config: ToyConfig) -> None:
        super().__init__()
        self._data = config.data

    def _open(self) -> None: ...

    def _close(self) -> None: ...

    def _ping(self) -> None: ...

    # Writes

    def _store_turn(
        self,
        conversation: Snapshot[Conversation] | None,
        messages: Sequence[Snapshot[Message]],
        trace: Snapshot[TurnTrace] | None,
    ) -> None:
        given: list[Snapshot[Any] | None] = [conversation, *messages, trace]
        with self._data.changes() as tables:
            for snapshot in filter(None, given):
                tables.put(snapshot.record)

    def _flag_message(self, message_id: str, flagged: bool) -> bool:
        with self._data.changes() as tables:
            for row in tables.rows(Message, id=message_id):
                tables[Message][message_id] = {**row, "is_flagged": flagged}
            return message_id in tables[Message]

    def _delete_message(self, message_id: str) -> bool:
        with self._data.changes() as tables:
            return tables.remove(Message, message_id)

    def _delete_conversation(self, conversation_id: str) -> bool:
        with self._data.changes() as tables:
            return tables.remove(Conversation, conversation_id)

    # Reads

    def _get_conversation(self, conversation_id: str) -> Conversation | None:
        return self._one(Conversation, id=conversation_id)

    def _get_message(self, message_id: str) -> Message | None:
        return self._one(Message, id=message_id)

    def _get_trace(self, by: str, key: str) -> TurnTrace | None:
        return self._one(TurnTrace, **{by: key})

    def _get_messages(self, message_ids: Sequence[str]) -> list[Message]:
        rows = self._data.tables[Message]
        return self._records(Message, [rows[one] for one in message_ids if one in rows])

    def _list_conversations(
        self, by: str, owner: str, limit: int | None, after: str | None
    ) -> list[Conversation]:
        rows = self._data.tables.rows(Conversation, "last_updated_at", **{by: owner})
        return self._records(Conversation, _page(rows[::-1], after)[:limit])

    def _list_messages(
        self, by: str, owner: str, limit: int | None, after: str | None
    ) -> list[Message]:
        rows = self._data.tables.rows(Message, "timestamp", **{by: owner})
        return self._records(Message, _page(rows, after)[:limit])

    def _iter_batches(self, conversation_id: str, size: int) -> Iterator[list[Message]]:
        seen: dict[str, int] = {}  # the last one may have been deleted when iteration goes on
        while True:
            rows = self._data.tables.messages(conversation_id)
            last = max(seen.values(), default=-(2**63))
            later = [row for row in rows if row["timestamp"] >= last and row["id"] not in seen]
            if not later:
                return
            seen.update((row["id"], row["timestamp"]) for row in later[:size])
            yield self._records(Message, later[:size])

    def _list_newest(
        self, conversation_id: str, calls: bool, limit: int, after: str | None
    ) -> list[Message]:
        callers = [role.value for role in CALLERS if calls]
        rows = _page(self._data.tables.messages(conversation_id)[::-1], after)
        shown = [row for row in rows if not row["is_flagged"] or row["role"] in callers]
        return self._records(Message, shown[:limit])

    def _list_conversation_traces(self, conversation_id: str) -> list[TurnTrace]:
        where = {"conversation_id": conversation_id}
        return self._records(TurnTrace, self._data.tables.rows(TurnTrace, "turn_number", **where))

    def _list_agent_traces(self, agent_id: str, limit: int, offset: int) -> list[TurnTrace]:
        rows = self._data.tables.rows(TurnTrace, "started_at_ms", agent_id=agent_id)
        return self._records(TurnTrace, rows[::-1][offset : offset + limit])

    def _find_traces(
        self, where: TraceFilter, limit: int | None, after: str | None
    ) -> list[TurnTrace]:
        rows = _page(self._data.tables.rows(TurnTrace, "started_at_ms")[::-1], after)
        traces = self._repairs.readable(rows, lambda row: self._repairs.read(TurnTrace, row))
        return [trace for trace in traces if matches(where, trace)][:limit]

    def _summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        return summarize(self._find_traces(where, None, None), by)

    # A conversation as a log

    def _create_conversation(self, conversation: Snapshot[Conversation]) -> Conversation:
        given = conversation.record
        with self._data.changes() as tables:
            if given.id not in tables[Conversation]:
                tables.put(given)
            return self._repairs.read(Conversation, tables[Conversation][given.id])

    def _append(
        self,
        conversation_id: str,
        messages: Sequence[Snapshot[Message]],
        expected_last: str | AnyMessage | None,
    ) -> list[Message]:
        with self._data.changes() as tables:
            conversation = tables[Conversation].get(conversation_id)
            if conversation is None:
                raise unknown_conversation(conversation_id)
            rows = tables.messages(conversation_id)
            newest = Newest(rows[-1]["id"], rows[-1]["timestamp"]) if rows else None
            given = [snapshot.record for snapshot in messages]
            stored = self._get_messages([message.id for message in given])
            known = {message.id: message for message in stored}
            new = messages_to_append(given, known, newest, expected_last)
            for message in new:
                tables.put(message)
                latest = max(conversation["last_updated_at"], message.timestamp)
                tables[Conversation][conversation_id] = {**conversation, "last_updated_at": latest}
        return new or stored

    def _pop(self, conversation_id: str) -> Message | None:
        with self._data.changes() as tables:
            for row in tables.messages(conversation_id)[-1:]:
                tables.remove(Message, row["id"])
                return self._repairs.read(Message, row)
        return None

    def _rewind(self, conversation_id: str, after: str | None) -> int:
        with self._data.changes() as tables:
            later = _page(tables.messages(conversation_id), after)
            return sum(tables.remove(Message, row["id"]) for row in later)

    def _fork(
        self, conversation_id: str, until: str | None, copy: Snapshot[Conversation], salt: UUID
    ) -> dict[str, str]:
        with self._data.changes() as tables:
            if conversation_id not in tables[Conversation]:
                raise NotFoundError(f"conversation {conversation_id!r} is not stored")
            rows = tables.messages(conversation_id)
            copied = rows[: len(rows) - len(_page(rows, until))] if until else rows
            if copy.record.id in tables[Conversation]:
                raise ConflictError(f"conversation {copy.record.id!r} is stored already")
            tables.put(copy.record)
            ids = {row["id"]: forked_id(salt, row["id"]) for row in copied}
            moved = {"conversation_id": copy.record.id}
            for row in copied:
                tables[Message][ids[row["id"]]] = {**row, **moved, "id": ids[row["id"]]}
            for row in tables.rows(TurnTrace):
                if row["message_id"] in ids:
                    new = {"id": forked_id(salt, row["id"]), "message_id": ids[row["message_id"]]}
                    tables[TurnTrace][new["id"]] = {**row, **moved, **new}
        return ids

    def _erase(self, user_id: str, limit: int) -> Erased:
        with self._data.changes() as tables:
            before = [len(rows) for rows in tables.values()]
            for kind in tables:
                for row in tables.rows(kind, user_id=user_id):
                    tables.remove(kind, row["id"])
            return Erased(*(n - len(tables[kind]) for n, kind in zip(before, tables, strict=True)))

    def _prune(self, before: int, limit: int) -> int:
        with self._data.changes() as tables:
            old = [
                row["id"]
                for row in tables.rows(Conversation, "last_updated_at")
                if row["last_updated_at"] < before
                and all(message["timestamp"] < before for message in tables.messages(row["id"]))
            ]
            return sum(tables.remove(Conversation, id) for id in old[:limit])

    # All records

    def _list_all_conversations(
        self, limit: int | None, after: str | None
    ) -> list[Conversation]:
        rows = self._data.tables.rows(Conversation, "last_updated_at")
        return self._records(Conversation, _page(rows[::-1], after)[:limit])

    def _iter_stored(self, kind: RecordKind, size: int) -> Iterator[list[Record]]:
        classes: dict[RecordKind, type[Record]] = {
            "conversations": Conversation,
            "messages": Message,
            "traces": TurnTrace,
        }
        rows = self._data.tables.rows(classes[kind])
        for begin in range(0, len(rows), size):
            yield self._records(classes[kind], rows[begin : begin + size])

    # Rows as records

    def _one(self, kind: type[AnyRecord], **where: str) -> AnyRecord | None:
        rows = self._data.tables.rows(kind, **where)
        return self._repairs.read(kind, rows[0]) if rows else None

    def _records(self, kind: type[AnyRecord], rows: Sequence[Row]) -> list[AnyRecord]:
        return self._repairs.listing(
            rows, lambda row: self._repairs.read(kind, row), lambda row: row.get("id")
        )


def _page(rows: list[Row], after: str | None) -> list[Row]:
    """Return all rows, or those after the one with an id."""
    if after is None:
        return rows
    ids = [row["id"] for row in rows]
    if after not in ids:
        raise NotFoundError(f"after={after!r} is no record of this listing")
    return rows[ids.index(after) + 1 :]
