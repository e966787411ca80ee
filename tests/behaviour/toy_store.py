"""The smallest back end of a message store: the example for a new one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from jazzmine import (
    ANY,
    NOTHING,
    ConflictError,
    Conversation,
    Message,
    NotFoundError,
    TraceFilter,
    TurnTrace,
)
from jazzmine._async.message_store.backend import Batch, MessageBackend
from jazzmine.core.message_store import MessageStore
from jazzmine.records import conversation_log as log
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.context_window import CALLERS
from jazzmine.records.hook_arguments import (
    Append,
    ConversationPage,
    Fork,
    MessagePage,
    NewestPage,
    TracePage,
    Turn,
)
from jazzmine.records.json_values import contains
from jazzmine.records.rows import Row, RowDecoder
from jazzmine.records.types import MIN_INT
from jazzmine.records.unreadable import Unreadable
from jazzmine.records.usage import UsageKey, UsageSummary
from tests.behaviour.toy_backend import Tables, ToyConfig, ToyData, page, rows_of
from tests.behaviour.trace_queries import matches, summarize


class ToyMessageStore(MessageStore):
    """A message store in three dicts."""

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(ToyBackend(config.data))


class ToyBackend(MessageBackend):
    """Keeps the records in three dicts; lists are made from all of them."""

    system_name = "toy"

    def __init__(self, data: ToyData) -> None:
        self._data = data

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def ping(self) -> None: ...

    # Writes

    async def store(self, turn: Turn) -> None:
        given: list[Snapshot[Any] | None] = [turn.conversation, *turn.messages, turn.trace]
        with self._data.changes() as tables:
            for snapshot in filter(None, given):
                tables.put(snapshot.record)

    async def store_many(
        self,
        conversations: Sequence[Snapshot[Conversation]],
        messages: Sequence[Snapshot[Message]],
        traces: Sequence[Snapshot[TurnTrace]],
    ) -> None:
        given: list[Snapshot[Any]] = [*conversations, *messages, *traces]
        with self._data.changes() as tables:
            for snapshot in given:
                tables.put(snapshot.record)

    async def flag_message(self, message_id: str, flagged: bool) -> bool:
        with self._data.changes() as tables:
            for row in tables.rows(Message, id=message_id):
                tables[Message][message_id] = {**row, "is_flagged": flagged}
            return message_id in tables[Message]

    async def delete_message(self, message_id: str) -> bool:
        with self._data.changes() as tables:
            return tables.remove(Message, message_id)

    async def delete_conversation(self, conversation_id: str) -> bool:
        with self._data.changes() as tables:
            return tables.remove(Conversation, conversation_id)

    async def create_conversation(self, conversation: Snapshot[Conversation]) -> Row | None:
        with self._data.changes() as tables:
            for row in tables.rows(Conversation, id=conversation.record.id):
                return row["id"], row
            tables.put(conversation.record)
        return None

    async def move_user(self, from_user_id: str, to_user_id: str) -> int:
        moved = 0
        with self._data.changes() as tables:
            for kind in tables:
                for row in tables.rows(kind, user_id=from_user_id):
                    tables[kind][row["id"]] = {**row, "user_id": to_user_id}
                    moved += 1
        return moved

    async def rewrite(
        self,
        kind: RecordKind,
        ids: Sequence[str],
        change: Callable[[Row], Snapshot[Any] | None],
    ) -> Sequence[str]:
        classes = dict(zip(("conversations", "messages", "traces"), self._tables, strict=True))
        written = []
        with self._data.changes() as tables:
            for row in (row for one in ids for row in tables.rows(classes[kind], id=one)):
                changed = change((row["id"], row))
                if changed is not None:
                    tables.put(changed.record)
                    written.append(row["id"])
        return written

    # A conversation as a log

    async def append(self, given: Append) -> int | log.Refusal:
        conversation_id, messages, expected_last, trace, replace_after = given
        with self._data.changes() as tables:
            ids = [message.record.id for message in messages]
            stored = [(one, tables[Message][one]) for one in ids if one in tables[Message]]
            present = [row["id"] for row in tables.messages(conversation_id)]
            newest = present[-1] if present else None
            is_known = conversation_id in tables[Conversation]
            is_expected = expected_last is ANY or expected_last == newest
            if stored or not is_known or not is_expected:
                return log.Refusal(is_known, newest, stored)
            if replace_after is not NOTHING:
                if replace_after not in (None, *present):
                    return log.Refusal(is_known, newest, stored)
                for row in tables.messages(conversation_id, replace_after):
                    tables.remove(Message, row["id"])
            times = [row["timestamp"] for row in tables.messages(conversation_id)]
            floor = times[-1] if times else MIN_INT
            for message in messages:
                tables.put(log.not_before(floor, message).record)
            if trace is not None:
                tables.put(trace.record)
            row = tables[Conversation][conversation_id]
            latest = max(row["last_updated_at"], floor, messages[-1].record.timestamp)
            tables[Conversation][conversation_id] = {**row, "last_updated_at": latest}
        return floor

    async def pop(
        self, conversation_id: str, check: Callable[[Row], object], *, checks_all: bool = False
    ) -> Row | None:
        with self._data.changes() as tables:
            for row in tables.messages(conversation_id)[-1:]:
                check((row["id"], row))
                tables.remove(Message, row["id"])
                return row["id"], row
        return None

    async def rewind(self, conversation_id: str, after: str | None) -> int:
        with self._data.changes() as tables:
            later = tables.messages(conversation_id, after)
            return sum(tables.remove(Message, row["id"]) for row in later)

    async def fork(self, fork: Fork) -> dict[str, str]:
        conversation_id, until, copy, salt = fork
        with self._data.changes() as tables:
            if conversation_id not in tables[Conversation]:
                raise NotFoundError(f"conversation {conversation_id!r} is not stored")
            if copy.record.id in tables[Conversation]:
                raise ConflictError(f"conversation {copy.record.id!r} is stored already")
            rows = tables.messages(conversation_id)
            later = tables.messages(conversation_id, until) if until else []
            tables.put(copy.record)
            return tables.fork(rows[: len(rows) - len(later)], copy.record.id, salt)

    # Erasure and retention

    async def newest_sequence(self) -> Any:
        return {kind: set(rows) for kind, rows in self._tables.items()}

    async def erase(self, user_id: str, limit: int, newest: Any) -> log.DeletedCounts:
        with self._data.changes() as tables:
            before = [len(rows) for rows in tables.values()]
            for kind in tables:
                for row in tables.rows(kind, user_id=user_id):
                    if row["id"] in newest[kind]:
                        tables.remove(kind, row["id"])
            after = [len(rows) for rows in tables.values()]
            return log.DeletedCounts(*(n - left for n, left in zip(before, after, strict=True)))

    async def prune(self, conversations: Sequence[Row], before: int, limit: int) -> tuple[int, int]:
        with self._data.changes() as tables:
            pruned = 0
            for conversation_id, given in conversations:
                for row in tables.rows(Conversation, id=conversation_id):
                    times = [message["timestamp"] for message in tables.messages(row["id"])]
                    is_old = max([row["last_updated_at"], *times]) < before
                    if is_old and row["metadata"] == given["metadata"]:
                        pruned += tables.remove(Conversation, row["id"])
            return pruned, len(conversations)

    async def iter_old(
        self, before: int, size: int, user_id: str | None = None
    ) -> AsyncIterator[Sequence[Row]]:
        owned = {} if user_id is None else {"user_id": user_id}
        rows = self._tables.sorted(Conversation, "last_updated_at", **owned)
        yield rows_of([row for row in rows if row["last_updated_at"] < before])

    # Reads

    @property
    def _tables(self) -> Tables:
        return self._data.tables

    async def get_conversation(self, conversation_id: str) -> Row | None:
        return next(iter(rows_of(self._tables.rows(Conversation, id=conversation_id))), None)

    async def get_message(self, message_id: str) -> Row | None:
        return next(iter(rows_of(self._tables.rows(Message, id=message_id))), None)

    async def get_trace(self, by: str, key: str) -> Row | None:
        return next(iter(rows_of(self._tables.rows(TurnTrace, **{by: key}))), None)

    async def get_messages(self, message_ids: Sequence[str]) -> Sequence[Row]:
        stored = self._tables[Message]
        return rows_of([stored[one] for one in message_ids if one in stored])

    async def list_conversations(self, listing: ConversationPage) -> Sequence[Row]:
        by, owner, where, limit, after, user_id = listing
        owned = {by: owner} if by else {}
        if user_id is not None:
            owned["user_id"] = user_id
        rows = self._tables.sorted(Conversation, "last_updated_at", **owned)[::-1]
        return page(rows, limit, after, lambda row: contains(row["metadata"], where))

    async def list_messages(self, listing: MessagePage) -> Sequence[Row]:
        by, owner, limit, after = listing
        return page(self._tables.sorted(Message, "timestamp", **{by: owner}), limit, after)

    async def next_messages(self, conversation_id: str, cursor: Any, size: int) -> Batch:
        numbers = self._data.numbers
        keyed = [
            ((row["timestamp"], numbers[row["id"]]), row)
            for row in self._tables.messages(conversation_id)
        ]
        later = [item for item in keyed if cursor is None or item[0] > cursor][:size]
        return Batch(rows_of([row for _, row in later]), later[-1][0] if later else cursor)

    async def list_newest(self, listing: NewestPage) -> Sequence[Row]:
        conversation_id, flagged, limit, after = listing
        callers = {role.value for role in CALLERS}

        def is_shown(row: dict[str, Any]) -> bool:
            is_call = flagged == "calls" and row["role"] in callers
            return flagged == "all" or not row["is_flagged"] or is_call

        return page(self._tables.messages(conversation_id)[::-1], limit, after, is_shown)

    async def count_messages(self, conversation_ids: Sequence[str]) -> dict[str, int]:
        return {each: len(self._tables.messages(each)) for each in conversation_ids}

    async def list_conversation_traces(self, conversation_id: str) -> Sequence[Row]:
        traces = self._tables.sorted(TurnTrace, "turn_number", conversation_id=conversation_id)
        return rows_of(traces)

    async def list_agent_traces(self, agent_id: str, limit: int, offset: int) -> Sequence[Row]:
        rows = self._tables.sorted(TurnTrace, "started_at_ms", agent_id=agent_id)
        return rows_of(rows[::-1][offset : offset + limit])

    async def find_traces(self, listing: TracePage) -> Sequence[Row]:
        where, limit, after = listing
        rows = self._tables.sorted(TurnTrace, "started_at_ms")[::-1]
        return page(rows, limit, after, lambda row: _matches(where, row))

    async def summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        rows = rows_of(self._tables.rows(TurnTrace))
        traces = RowDecoder(TurnTrace, Unreadable()).records(rows)
        wanted = (trace for trace in traces if trace.copied_from is None and matches(where, trace))
        return summarize(wanted, by)

    async def iter_stored(
        self, kinds: Sequence[RecordKind], size: int
    ) -> AsyncIterator[tuple[RecordKind, Sequence[Row]]]:
        classes = dict(zip(("conversations", "messages", "traces"), self._tables, strict=True))
        for kind in kinds:
            rows = rows_of(self._tables.rows(classes[kind]))
            for begin in range(0, len(rows), size):
                yield kind, rows[begin : begin + size]


def _matches(where: TraceFilter, row: dict[str, Any]) -> bool:
    # One that cannot be read is left to the store.
    traces = RowDecoder(TurnTrace, Unreadable()).records(rows_of([row]))
    return not traces or matches(where, traces[0])
