"""The records of a JSON store in memory, and the indexes that find them.

A record is kept as its line of JSON in the file, with the few values that it is found and
sorted by; it is parsed only when it is read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable
from operator import attrgetter
from sys import intern
from typing import Any, Generic, Protocol, TypeVar

from jazzmine.errors import NotFoundError
from jazzmine.records.context_window import CALLERS
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace

__all__ = ["ConversationRow", "Index", "MessageRow", "Row", "Tables", "TraceRow"]


class Row(Protocol):
    """The attributes of every row; `sequence` is the order in which ids were first stored.

    `record` is the parsed record, which is kept after the second read, or None.
    """

    id: str
    line: bytes
    sequence: int
    record: Any
    was_read: bool


class ConversationRow:
    """A conversation's line, and the values that it is found and sorted by."""

    __slots__ = (
        "agent_id",
        "id",
        "last_updated_at",
        "line",
        "record",
        "sequence",
        "user_id",
        "was_read",
    )

    def __init__(self, record: Conversation, line: bytes, sequence: int) -> None:
        self.id: str = record.id
        self.line: bytes = line
        self.sequence: int = sequence
        self.record: Conversation | None = None
        self.was_read: bool = False
        self.user_id: str = intern(record.user_id)
        self.agent_id: str = intern(record.agent_id)
        self.last_updated_at: int = record.last_updated_at


class MessageRow:
    """A message's line, and the values that it is found and sorted by."""

    __slots__ = (
        "conversation_id",
        "id",
        "is_flagged",
        "is_flagged_call",
        "line",
        "record",
        "sequence",
        "timestamp",
        "user_id",
        "was_read",
    )

    def __init__(self, record: Message, line: bytes, sequence: int) -> None:
        self.id: str = record.id
        self.line: bytes = line
        self.sequence: int = sequence
        self.record: Message | None = None
        self.was_read: bool = False
        # Many messages have the same few ids: interned, each string is in memory once.
        self.conversation_id: str = intern(record.conversation_id)
        self.user_id: str = intern(record.user_id)
        self.timestamp: int = record.timestamp
        self.is_flagged: bool = record.is_flagged
        # A record that cannot be read has no role.
        self.is_flagged_call: bool = record.is_flagged and getattr(record, "role", None) in CALLERS


class TraceRow:
    """A trace's line, and the values that it is found and sorted by."""

    __slots__ = (
        "agent_id",
        "conversation_id",
        "id",
        "line",
        "message_id",
        "record",
        "sequence",
        "started_at_ms",
        "turn_number",
        "user_id",
        "was_read",
    )

    def __init__(self, record: TurnTrace, line: bytes, sequence: int) -> None:
        self.id: str = record.id
        self.line: bytes = line
        self.sequence: int = sequence
        self.record: TurnTrace | None = None
        self.was_read: bool = False
        self.message_id: str = record.message_id
        self.conversation_id: str = intern(record.conversation_id)
        self.user_id: str = intern(record.user_id)
        self.agent_id: str = intern(record.agent_id)
        self.turn_number: int = record.turn_number
        self.started_at_ms: int = record.started_at_ms


AnyRow = TypeVar("AnyRow", bound=Row)


class Index(Generic[AnyRow]):
    """Rows grouped by one of their values, each group in ascending order.

    Args:
        group: the attribute that is the name of the row's group; None puts all rows into one
            group with the name "".
        order: the attribute that sorts a group; equal values are sorted by their sequence.
        keep: returns whether the index holds a row; None holds all rows.
    """

    def __init__(
        self,
        group: str | None,
        order: str,
        keep: Callable[[AnyRow], bool] | None = None,
    ) -> None:
        self._group: Callable[[AnyRow], str] = attrgetter(group) if group else lambda row: ""
        self._key: Callable[[AnyRow], tuple[int, int]] = attrgetter(order, "sequence")
        self._keep = keep
        self._groups: dict[str, list[AnyRow]] = {}

    def add(self, row: AnyRow) -> None:
        """Insert a row into its group."""
        if self._keep is not None and not self._keep(row):
            return
        rows = self._groups.setdefault(self._group(row), [])
        if not rows or self._key(rows[-1]) < self._key(row):
            rows.append(row)
        else:
            insort(rows, row, key=self._key)

    def remove(self, row: AnyRow) -> None:
        """Remove a row that was added, by the values that it had then."""
        if self._keep is not None and not self._keep(row):
            return
        group = self._group(row)
        rows = self._groups[group]
        del rows[bisect_left(rows, self._key(row), key=self._key)]
        if not rows:
            del self._groups[group]

    def rows(self, group: str) -> list[AnyRow]:
        """Return the rows of a group, ascending; the list is the index's own."""
        return self._groups.get(group, [])

    def first(self, group: str, limit: int | None, after: AnyRow | None) -> list[AnyRow]:
        """Return a page of a group, ascending, starting after the row `after`."""
        rows = self.rows(group)
        start = 0 if after is None else bisect_right(rows, self._key(after), key=self._key)
        return rows[start:] if limit is None else rows[start : start + limit]

    def last(self, group: str, limit: int | None, after: AnyRow | None) -> list[AnyRow]:
        """Return a page of a group, descending, starting after the row `after`."""
        rows = self.rows(group)
        end = len(rows) if after is None else bisect_left(rows, self._key(after), key=self._key)
        start = 0 if limit is None else max(0, end - limit)
        return rows[start:end][::-1]

    def member(self, group: str, row: AnyRow | None, row_id: str) -> AnyRow:
        """Return the row if it is in the group.

        Raises:
            NotFoundError: it is not, so that no page can begin after it.
        """
        if row is None or self._group(row) != group:
            raise NotFoundError(f"after={row_id!r} is no record of this listing")
        return row


def _is_visible(row: MessageRow) -> bool:
    return not row.is_flagged


class Tables:
    """All rows of a store; each dict keeps the order in which ids were first stored."""

    def __init__(self) -> None:
        self.conversations: dict[str, ConversationRow] = {}
        self.messages: dict[str, MessageRow] = {}
        self.traces: dict[str, TraceRow] = {}
        self.trace_of_message: dict[str, TraceRow] = {}
        self.conversations_by: dict[str, Index[ConversationRow]] = {
            owner: Index[ConversationRow](owner, "last_updated_at")
            for owner in ("user_id", "agent_id")
        }
        self.messages_by: dict[str, Index[MessageRow]] = {
            owner: Index[MessageRow](owner, "timestamp") for owner in ("conversation_id", "user_id")
        }
        self.visible_messages: Index[MessageRow] = Index(
            "conversation_id", "timestamp", _is_visible
        )
        self.flagged_calls: Index[MessageRow] = Index(
            "conversation_id", "timestamp", attrgetter("is_flagged_call")
        )
        self.traces_by_turn: Index[TraceRow] = Index("conversation_id", "turn_number")
        self.traces_by_conversation: Index[TraceRow] = Index("conversation_id", "started_at_ms")
        self.traces_by_agent: Index[TraceRow] = Index("agent_id", "started_at_ms")
        self.traces_by_user: Index[TraceRow] = Index("user_id", "started_at_ms")
        self.traces_by_start: Index[TraceRow] = Index(None, "started_at_ms")
        self.conversations_by_update: Index[ConversationRow] = Index(None, "last_updated_at")
        self._conversation_indexes = (*self.conversations_by.values(), self.conversations_by_update)
        self._message_indexes = (
            *self.messages_by.values(),
            self.visible_messages,
            self.flagged_calls,
        )
        self._trace_indexes = (
            self.traces_by_turn,
            self.traces_by_conversation,
            self.traces_by_agent,
            self.traces_by_user,
            self.traces_by_start,
        )
        self._last_sequence = 0

    def next_sequence(self) -> int:
        """Return a sequence number higher than all before."""
        self._last_sequence += 1
        return self._last_sequence

    def put_conversation(self, conversation_id: str, row: ConversationRow | None) -> None:
        """Set or, with None, remove a conversation; its messages stay."""
        _put(self.conversations, self._conversation_indexes, conversation_id, row)

    def put_message(self, message_id: str, row: MessageRow | None) -> None:
        """Set or, with None, remove a message; its trace stays."""
        _put(self.messages, self._message_indexes, message_id, row)

    def put_trace(self, trace_id: str, row: TraceRow | None) -> None:
        """Set or, with None, remove a trace."""
        old = self.traces.get(trace_id)
        if old is not None and self.trace_of_message.get(old.message_id) is old:
            del self.trace_of_message[old.message_id]
        if row is not None:
            self.trace_of_message[row.message_id] = row
        _put(self.traces, self._trace_indexes, trace_id, row)


def _put(
    table: dict[str, AnyRow], indexes: Iterable[Index[AnyRow]], row_id: str, row: AnyRow | None
) -> None:
    old = table.get(row_id)
    if old is not None:
        for index in indexes:
            index.remove(old)
        # A record that was removed and stored again goes to the end, as a new id does.
        if row is None or row.sequence != old.sequence:
            del table[row_id]
    if row is not None:
        table[row_id] = row
        for index in indexes:
            index.add(row)
