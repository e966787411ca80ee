"""The smallest back end of a message store: the example for a new one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from pydantic import ValidationError

from jazzmine import Conversation, Message, NotFoundError, TraceFilter, TurnTrace, UsageSummary
from jazzmine.backends.json.trace_queries import matches, summarize
from jazzmine.sync.message_store import MessageStore
from jazzmine.records.base import Record, Snapshot, require_stored
from jazzmine.records.usage import UsageKey
from tests.behaviour.toy_backend import Row, ToyConfig

__all__ = ["ToyMessageStore"]

AnyRecord = TypeVar("AnyRecord", bound=Record)


class ToyMessageStore(MessageStore):
    """A message store in three dicts."""

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
        given = (conversation, *messages, trace)
        self._data.store([snapshot.record for snapshot in given if snapshot is not None])

    def _flag_message(self, message_id: str, flagged: bool) -> bool:
        with self._data.lock:
            found = self._data.rows(Message, {"id": message_id})
            for row in found:
                self._data.put(Message, {**row.raw, "is_flagged": flagged})
            return bool(found)

    def _delete_message(self, message_id: str) -> bool:
        return self._data.delete(Message, {"id": message_id})

    def _delete_conversation(self, conversation_id: str) -> bool:
        return self._data.delete(Conversation, {"id": conversation_id})

    # Reads

    def _get_conversation(self, conversation_id: str) -> Conversation | None:
        return self._get(Conversation, {"id": conversation_id})

    def _get_message(self, message_id: str) -> Message | None:
        return self._get(Message, {"id": message_id})

    def _get_trace(self, by: str, key: str) -> TurnTrace | None:
        return self._get(TurnTrace, {by: key})

    def _get_messages(self, message_ids: Sequence[str]) -> list[Message]:
        found = (self._data.rows(Message, {"id": message_id}) for message_id in message_ids)
        return self._list(Message, [row for rows in found for row in rows])

    def _list_conversations(
        self, by: str, owner: str, limit: int | None, after: str | None
    ) -> list[Conversation]:
        rows = self._data.rows(Conversation, {by: owner}, "last_updated_at")
        return self._list(Conversation, _page(rows[::-1], after)[:limit])

    def _list_messages(
        self, by: str, owner: str, limit: int | None, after: str | None
    ) -> list[Message]:
        rows = self._data.rows(Message, {by: owner}, "timestamp")
        return self._list(Message, _page(rows, after)[:limit])

    def _iter_batches(self, conversation_id: str, size: int) -> Iterator[list[Message]]:
        last = (-(2**63), -1)
        while True:
            rows = self._data.rows(Message, {"conversation_id": conversation_id}, "timestamp")
            later = [row for row in rows if (row.raw["timestamp"], row.number) > last][:size]
            if not later:
                return
            last = (later[-1].raw["timestamp"], later[-1].number)
            yield self._list(Message, later)

    def _list_newest_visible(self, conversation_id: str, n: int) -> list[Message]:
        visible = {"conversation_id": conversation_id, "is_flagged": False}
        return self._list(Message, self._data.rows(Message, visible, "timestamp")[-n:])

    def _list_conversation_traces(self, conversation_id: str) -> list[TurnTrace]:
        rows = self._data.rows(TurnTrace, {"conversation_id": conversation_id}, "turn_number")
        return self._list(TurnTrace, rows)

    def _list_agent_traces(self, agent_id: str, limit: int, offset: int) -> list[TurnTrace]:
        rows = self._data.rows(TurnTrace, {"agent_id": agent_id}, "started_at_ms")
        return self._list(TurnTrace, rows[::-1][offset : offset + limit])

    def _find_traces(
        self, where: TraceFilter, limit: int | None, after: str | None
    ) -> list[TurnTrace]:
        rows = _page(self._data.rows(TurnTrace, {}, "started_at_ms")[::-1], after)
        traces = self._repairs.readable(rows, lambda row: self._read(TurnTrace, row))
        return list(islice((trace for trace in traces if matches(where, trace)), limit))

    def _summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        return summarize(self._find_traces(where, None, None), by)

    # Rows as records

    def _get(self, kind: type[AnyRecord], where: Mapping[str, object]) -> AnyRecord | None:
        rows = self._data.rows(kind, where)
        return self._read(kind, rows[0]) if rows else None

    def _list(self, kind: type[AnyRecord], rows: list[Row]) -> list[AnyRecord]:
        return self._repairs.listing(
            rows, lambda row: self._read(kind, row), lambda row: row.raw.get("id")
        )

    def _read(self, kind: type[AnyRecord], row: Row) -> AnyRecord:
        try:
            record: AnyRecord = kind.__pydantic_validator__.validate_python(row.raw)
            require_stored(record)
        except ValidationError:
            return self._repairs.record(kind, row.raw)
        return record


def _page(rows: list[Row], after: str | None) -> list[Row]:
    """Return all rows, or those after the one with an id."""
    if after is None:
        return rows
    ids = [row.raw["id"] for row in rows]
    if after not in ids:
        raise NotFoundError(f"after={after!r} is no record of this listing")
    return rows[ids.index(after) + 1 :]
