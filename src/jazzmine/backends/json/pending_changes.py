"""The changes of a write, before they are on disk.

A row that the pending changes do not contain is looked up in the changes or the tables below
them. The tables are not changed before the file is written, so that readers see only stored
records; the pending changes of a failed write are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter

from jazzmine.backends.json.lines import read_message
from jazzmine.backends.json.tables import ConversationRow, MessageRow, Tables, TraceRow
from jazzmine.errors import IntegrityError
from jazzmine.records.base import Snapshot, snapshot
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace

__all__ = ["PendingChanges"]

_IN_ORDER = attrgetter("timestamp", "sequence")


class PendingChanges:
    """Rows to set in the tables; None in place of a row removes it."""

    def __init__(self, tables: Tables, below: PendingChanges | None = None) -> None:
        self._tables = tables
        self._below = below
        self.conversations: dict[str, ConversationRow | None] = {}
        self.messages: dict[str, MessageRow | None] = {}
        self.traces: dict[str, TraceRow | None] = {}
        self._trace_of_message: dict[str, TraceRow | None] = {}

    def __bool__(self) -> bool:
        return bool(self.conversations or self.messages or self.traces)

    def savepoint(self) -> PendingChanges:
        """Return changes on top of these, to be committed together or dropped."""
        return PendingChanges(self._tables, self)

    def commit(self) -> None:
        """Add the changes of this savepoint to the changes that it was made from."""
        below = self._below
        assert below is not None
        below.conversations.update(self.conversations)
        below.messages.update(self.messages)
        below.traces.update(self.traces)
        below._trace_of_message.update(self._trace_of_message)

    def remove_traces(self, rows: Iterable[TraceRow]) -> None:
        """Remove traces that are in the tables."""
        for row in rows:
            self.traces[row.id] = self._trace_of_message[row.message_id] = None

    def add_trace(self, row: TraceRow) -> None:
        """Add a trace of a message that has no trace."""
        self.traces[row.id] = self._trace_of_message[row.message_id] = row

    def apply(self) -> None:
        """Change the tables."""
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

    # Reads: the stored rows as they would be after this write.

    def conversation(self, conversation_id: str) -> ConversationRow | None:
        """Return the row of a conversation, or None."""
        for layer in self._layers():
            if conversation_id in layer.conversations:
                return layer.conversations[conversation_id]
        return self._tables.conversations.get(conversation_id)

    def message(self, message_id: str) -> MessageRow | None:
        """Return the row of a message, or None."""
        for layer in self._layers():
            if message_id in layer.messages:
                return layer.messages[message_id]
        return self._tables.messages.get(message_id)

    def trace(self, trace_id: str) -> TraceRow | None:
        """Return the row of a trace, or None."""
        for layer in self._layers():
            if trace_id in layer.traces:
                return layer.traces[trace_id]
        return self._tables.traces.get(trace_id)

    def trace_of(self, message_id: str) -> TraceRow | None:
        """Return the row of a message's trace, or None."""
        for layer in self._layers():
            if message_id in layer._trace_of_message:
                return layer._trace_of_message[message_id]
        return self._tables.trace_of_message.get(message_id)

    def conversations_of(self, user_id: str) -> list[ConversationRow]:
        """Return the rows of a user's conversations."""
        ids = [row.id for row in self._tables.conversations_by["user_id"].rows(user_id)]
        for layer in self._layers():
            ids.extend(layer.conversations)
        rows = map(self.conversation, dict.fromkeys(ids))
        return [row for row in rows if row is not None and row.user_id == user_id]

    def messages_of(self, by: str, owner: str) -> list[MessageRow]:
        """Return the rows of the messages of a conversation or a user, oldest first."""
        ids = [row.id for row in self._tables.messages_by[by].rows(owner)]
        for layer in self._layers():
            ids.extend(layer.messages)
        rows = map(self.message, dict.fromkeys(ids))
        found = [row for row in rows if row is not None and getattr(row, by) == owner]
        return sorted(found, key=_IN_ORDER)

    def newest_message(self, conversation_id: str) -> MessageRow | None:
        """Return the row of the newest message of a conversation, or None."""
        changed: dict[str, MessageRow | None] = {}
        for layer in self._layers():
            changed = {**layer.messages, **changed}
        mine = [row for row in changed.values() if row and row.conversation_id == conversation_id]
        for row in reversed(self._tables.messages_by["conversation_id"].rows(conversation_id)):
            if row.id not in changed:
                mine.append(row)
                break
        return max(mine, key=_IN_ORDER, default=None)

    def traces_of(self, user_id: str) -> list[TraceRow]:
        """Return the rows of the traces that name a user."""
        ids = [row.id for row in self._tables.traces_by_user.rows(user_id)]
        for layer in self._layers():
            ids.extend(layer.traces)
        rows = map(self.trace, dict.fromkeys(ids))
        return [row for row in rows if row is not None and row.user_id == user_id]

    def _layers(self) -> Iterator[PendingChanges]:
        layer: PendingChanges | None = self
        while layer is not None:
            yield layer
            layer = layer._below

    # Writes, which check the rules between records.

    def put_conversation(self, snapshot: Snapshot[Conversation]) -> None:
        """Store a conversation; one that was stored before keeps its sequence."""
        record, line = snapshot.record, snapshot.json
        old = self.conversation(record.id)
        if old is None or old.line != line:
            sequence = old.sequence if old else self._tables.next_sequence()
            self.conversations[record.id] = ConversationRow(record, line, sequence)

    def put_messages(self, messages: Iterable[Snapshot[Message]]) -> None:
        """Store messages; one that was stored before keeps its sequence.

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
                sequence = old.sequence if old else self._tables.next_sequence()
                self.messages[record.id] = MessageRow(record, line, sequence)

    def put_trace(self, snapshot: Snapshot[TurnTrace]) -> None:
        """Store the trace of a message, in place of its previous trace.

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
        row = TraceRow(record, line, old.sequence if old else self._tables.next_sequence())
        self.add_trace(row)

    def delete_conversation(self, conversation_id: str) -> bool:
        """Remove a conversation, its messages and their traces; return whether it was stored."""
        for message in self.messages_of("conversation_id", conversation_id):
            self.delete_message(message.id)
        if self.conversation(conversation_id) is None:
            return False
        self.conversations[conversation_id] = None
        return True

    def flag_message(self, message_id: str, flagged: bool) -> bool:
        """Set or clear the flag of a message; return whether the message is stored."""
        row = self.message(message_id)
        if row is None:
            return False
        if row.is_flagged != flagged:
            message = read_message(row.line)
            message.is_flagged = flagged
            line = snapshot(message, Message).json
            self.messages[message_id] = MessageRow(message, line, row.sequence)
        return True

    def delete_message(self, message_id: str) -> bool:
        """Remove a message and its trace; return whether the message was stored."""
        if self.message(message_id) is None:
            return False
        trace = self.trace_of(message_id)
        if trace is not None:
            self.remove_traces([trace])
        self.messages[message_id] = None
        return True
