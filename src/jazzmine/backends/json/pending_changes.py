"""What a write changes, before it is on disk.

A draft is read through: what it does not hold comes from the tables (or the draft) below.
The tables stay as the file is, and readers with them, until the file holds the draft; a
write that fails is forgotten by dropping its draft.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jazzmine.backends.json.lines import read_message
from jazzmine.backends.json.tables import ConversationRow, MessageRow, Tables, TraceRow
from jazzmine.errors import IntegrityError
from jazzmine.records.base import Snapshot, snapshot
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace

__all__ = ["PendingChanges"]


class PendingChanges:
    """Changes upon tables; a row that is None is removed."""

    def __init__(self, tables: Tables, below: PendingChanges | None = None) -> None:
        self._tables = tables
        self._below = below
        self.conversations: dict[str, ConversationRow | None] = {}
        self.messages: dict[str, MessageRow | None] = {}
        self.traces: dict[str, TraceRow | None] = {}
        self._trace_of_message: dict[str, TraceRow | None] = {}

    def __bool__(self) -> bool:
        return bool(self.conversations or self.messages or self.traces)

    def step(self) -> PendingChanges:
        """Begin a draft upon this one, to be merged or dropped as a whole."""
        return PendingChanges(self._tables, self)

    def merge(self) -> None:
        """Hand the changes to the draft below."""
        below = self._below
        assert below is not None
        below.conversations.update(self.conversations)
        below.messages.update(self.messages)
        below.traces.update(self.traces)
        below._trace_of_message.update(self._trace_of_message)

    def remove_traces(self, rows: Iterable[TraceRow]) -> None:
        """Remove traces that the tables hold."""
        for row in rows:
            self.traces[row.id] = self._trace_of_message[row.message_id] = None

    def add_trace(self, row: TraceRow) -> None:
        """Add a trace, whose message has none."""
        self.traces[row.id] = self._trace_of_message[row.message_id] = row

    def apply(self) -> None:
        """Make the changes in the tables."""
        for trace_id, trace in self.traces.items():
            if trace is None:
                self._tables.put_trace(trace_id, None)
        for message_id, message in self.messages.items():
            self._tables.put_message(message_id, message)
        for conversation_id, conversation in self.conversations.items():
            self._tables.put_conversation(conversation_id, conversation)
        for trace_id, trace in self.traces.items():
            if trace is not None:
                self._tables.put_trace(trace_id, trace)

    # What is stored, as though the draft were on disk.

    def conversation(self, conversation_id: str) -> ConversationRow | None:
        """Return the conversation, if there is one."""
        for draft in self._layers():
            if conversation_id in draft.conversations:
                return draft.conversations[conversation_id]
        return self._tables.conversations.get(conversation_id)

    def message(self, message_id: str) -> MessageRow | None:
        """Return the message, if there is one."""
        for draft in self._layers():
            if message_id in draft.messages:
                return draft.messages[message_id]
        return self._tables.messages.get(message_id)

    def trace(self, trace_id: str) -> TraceRow | None:
        """Return the trace, if there is one."""
        for draft in self._layers():
            if trace_id in draft.traces:
                return draft.traces[trace_id]
        return self._tables.traces.get(trace_id)

    def trace_of(self, message_id: str) -> TraceRow | None:
        """Return the trace of a message, if it has one."""
        for draft in self._layers():
            if message_id in draft._trace_of_message:
                return draft._trace_of_message[message_id]
        return self._tables.trace_of_message.get(message_id)

    def message_ids_of(self, conversation_id: str) -> list[str]:
        """Return the ids of all messages of a conversation."""
        stored = self._tables.messages_by["conversation_id"].rows(conversation_id)
        ids = dict.fromkeys(row.id for row in stored)
        for draft in self._layers():
            ids.update(dict.fromkeys(draft.messages))
        rows = ((message_id, self.message(message_id)) for message_id in ids)
        return [i for i, row in rows if row is not None and row.conversation_id == conversation_id]

    def _layers(self) -> Iterator[PendingChanges]:
        draft: PendingChanges | None = self
        while draft is not None:
            yield draft
            draft = draft._below

    # The writes, each with the rule that it keeps.

    def put_conversation(self, snapshot: Snapshot[Conversation]) -> None:
        """Store a conversation; a known id keeps its position."""
        record, line = snapshot.record, snapshot.json
        old = self.conversation(record.id)
        if old is None or old.line != line:
            position = old.position if old else self._tables.next_position()
            self.conversations[record.id] = ConversationRow(record, line, position)

    def put_messages(self, messages: Iterable[Snapshot[Message]]) -> None:
        """Store messages; a known id keeps its position.

        Raises:
            IntegrityError: the conversation of one of them is not stored.
        """
        for message in messages:
            record, line = message.record, message.json
            if self.conversation(record.conversation_id) is None:
                raise IntegrityError(
                    f"message {record.id!r}: its conversation {record.conversation_id!r}"
                    " is not stored; store the conversation first"
                )
            old = self.message(record.id)
            if old is None or old.line != line:
                position = old.position if old else self._tables.next_position()
                self.messages[record.id] = MessageRow(record, line, position)

    def put_trace(self, snapshot: Snapshot[TurnTrace]) -> None:
        """Store the trace of a message in place of the one before.

        Raises:
            IntegrityError: the message is not stored, or the trace belongs to another one.
        """
        record, line = snapshot.record, snapshot.json
        if self.message(record.message_id) is None:
            raise IntegrityError(
                f"trace {record.id!r}: its message {record.message_id!r}"
                " is not stored; store the message first"
            )
        old = self.trace(record.id)
        if old is not None and old.message_id != record.message_id:
            raise IntegrityError(
                f"trace {record.id!r} belongs to message {old.message_id!r},"
                f" it cannot become that of {record.message_id!r}"
            )
        if old is not None and old.line == line:
            return
        before = self.trace_of(record.message_id)
        if before is not None and before.id != record.id:
            self.traces[before.id] = None
        row = TraceRow(record, line, old.position if old else self._tables.next_position())
        self.add_trace(row)

    def delete_conversation(self, conversation_id: str) -> bool:
        """Remove a conversation, its messages and their traces; True if it was there."""
        for message_id in self.message_ids_of(conversation_id):
            self.delete_message(message_id)
        if self.conversation(conversation_id) is None:
            return False
        self.conversations[conversation_id] = None
        return True

    def flag_message(self, message_id: str, flagged: bool) -> bool:
        """Set or clear the flag of a message; True if the message was there."""
        row = self.message(message_id)
        if row is None:
            return False
        if row.is_flagged != flagged:
            message = read_message(row.line)
            message.is_flagged = flagged
            line = snapshot(message, Message).json
            self.messages[message_id] = MessageRow(message, line, row.position)
        return True

    def delete_message(self, message_id: str) -> bool:
        """Remove a message and its trace; True if it was there."""
        if self.message(message_id) is None:
            return False
        trace = self.trace_of(message_id)
        if trace is not None:
            self.remove_traces([trace])
        self.messages[message_id] = None
        return True
