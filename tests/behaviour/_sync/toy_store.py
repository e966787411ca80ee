"""The smallest back end of a message store: the example for a new one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from jazzmine import AnyMessage, ConflictError, Conversation, Message, NotFoundError, TurnTrace
from jazzmine.sync.message_store import MessageStore
from jazzmine.records import conversation_log as log
from jazzmine.records.base import Record, RecordKind, Snapshot
from tests.behaviour.toy_backend import ToyConfig

__all__ = ["ToyMessageStore"]

AnyRecord = TypeVar("AnyRecord", bound=Record)


class ToyMessageStore(MessageStore):
    """A message store in three dicts; lists are made from all records, as by default."""

    _system_name = "toy"

    def __init__(self, config: ToyConfig) -> None:
        super().__init__()
        self._data = config.data

    def _open(self) -> None: ...

    def _close(self) -> None: ...

    def _ping(self) -> None: ...

    # Reads

    def _get_conversation(self, conversation_id: str) -> Conversation | None:
        return self._one(Conversation, id=conversation_id)

    def _get_message(self, message_id: str) -> Message | None:
        return self._one(Message, id=message_id)

    def _get_trace(self, by: str, key: str) -> TurnTrace | None:
        return self._one(TurnTrace, **{by: key})

    def _one(self, kind: type[AnyRecord], **where: str) -> AnyRecord | None:
        rows = self._data.tables.rows(kind, **where)
        return self._repairs.read(kind, rows[0]) if rows else None

    def _iter_stored(self, kind: RecordKind, size: int) -> Iterator[list[Any]]:
        classes = dict(zip(("conversations", "messages", "traces"), self._data.tables, strict=True))
        rows = self._data.tables.rows(classes[kind])
        for begin in range(0, len(rows), size):
            batch = rows[begin : begin + size]
            yield list(self._repairs.readable(batch, partial(self._repairs.read, classes[kind])))

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

    def _erase(self, user_id: str, limit: int) -> log.Erased:
        with self._data.changes() as tables:
            before = [len(rows) for rows in tables.values()]
            for kind in tables:
                for row in tables.rows(kind, user_id=user_id):
                    tables.remove(kind, row["id"])
            after = [len(rows) for rows in tables.values()]
            return log.Erased(*(n - left for n, left in zip(before, after, strict=True)))

    def _prune(self, ids: list[str], before: int, limit: int) -> tuple[int, int]:
        with self._data.changes() as tables:
            pruned = 0
            for row in (row for one in ids for row in tables.rows(Conversation, id=one)):
                times = [message["timestamp"] for message in tables.messages(row["id"])]
                if max([row["last_updated_at"], *times]) < before:
                    pruned += tables.remove(Conversation, row["id"])
            return pruned, len(ids)

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
            if conversation_id not in tables[Conversation]:
                raise log.unknown_conversation(conversation_id)
            given = [snapshot.record for snapshot in messages]
            stored = self._get_messages([message.id for message in given])
            known = {message.id: message for message in stored}
            new = log.messages_to_append(
                given, known, tables.newest(conversation_id), expected_last
            )
            for message in new:
                tables.put(message)
                owner = tables[Conversation][conversation_id]
                latest = max(owner["last_updated_at"], message.timestamp)
                tables[Conversation][conversation_id] = {**owner, "last_updated_at": latest}
        return new or stored

    def _pop(self, conversation_id: str) -> Message | None:
        with self._data.changes() as tables:
            for row in tables.messages(conversation_id)[-1:]:
                tables.remove(Message, row["id"])
                return self._repairs.read(Message, row)
        return None

    def _rewind(self, conversation_id: str, after: str | None) -> int:
        with self._data.changes() as tables:
            later = tables.messages(conversation_id, after)
            return sum(tables.remove(Message, row["id"]) for row in later)

    def _fork(
        self, conversation_id: str, until: str | None, copy: Snapshot[Conversation], salt: UUID
    ) -> dict[str, str]:
        with self._data.changes() as tables:
            if conversation_id not in tables[Conversation]:
                raise NotFoundError(f"conversation {conversation_id!r} is not stored")
            if copy.record.id in tables[Conversation]:
                raise ConflictError(f"conversation {copy.record.id!r} is stored already")
            rows = tables.messages(conversation_id)
            later = tables.messages(conversation_id, until) if until else []
            messages = [self._repairs.read(Message, row) for row in rows[: len(rows) - len(later)]]
            traces = [self._repairs.read(TurnTrace, row) for row in tables.rows(TurnTrace)]
            ids, new, new_traces = log.forked(messages, traces, copy.record.id, salt)
            for record in (copy.record, *new, *new_traces):
                tables.put(record)
        return ids
