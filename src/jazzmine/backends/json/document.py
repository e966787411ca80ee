"""The form of the JSON store's file: one valid JSON object, one record a line.

    {"version": 1,
    "conversations": [
    {"id": ...},
    {"id": ...}
    ],
    "messages": [
    ],
    "turn_traces": [
    ]}

A file in exactly this form is read line by line. Any other file with the same object, such as
one that was written by jazzmine 0.1 or by hand, is parsed at once, and gets this form at the
next write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from pydantic import ValidationError

from jazzmine.backends.json.foreign_document import Sections, parse_document
from jazzmine.backends.json.lines import read_conversation, read_message, read_trace, stand_in
from jazzmine.backends.json.pending_changes import PendingChanges
from jazzmine.backends.json.tables import ConversationRow, MessageRow, Row, Tables, TraceRow
from jazzmine.records.base import Record
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import Repairs
from jazzmine.records.traces import TurnTrace

__all__ = ["file_content", "read_changes"]

_HEAD = b'{"version": 1,\n'
_SECTIONS = (
    (b'"conversations": [\n', b"],\n"),
    (b'"messages": [\n', b"],\n"),
    (b'"turn_traces": [\n', b"]}\n"),
)

AnyRecord = TypeVar("AnyRecord", bound=Record)
AnyRow = TypeVar("AnyRow", bound=Row)


# Lines are joined a few at a time, so that the memory of one block is reused for the next:
# allocating memory for the whole file takes longer than writing it.
_ROWS_A_BLOCK = 128


def file_content(tables: Tables, pending: PendingChanges) -> Iterator[bytes]:
    """Yield the content of the file after the pending changes, in blocks."""
    sections = (
        _lines(tables.conversations, pending.conversations),
        _lines(tables.messages, pending.messages),
        _lines(tables.traces, pending.traces),
    )
    yield _HEAD
    for (begin, end), lines in zip(_SECTIONS, sections, strict=True):
        yield begin
        for first in range(0, len(lines), _ROWS_A_BLOCK):
            block = lines[first : first + _ROWS_A_BLOCK]
            if first + _ROWS_A_BLOCK < len(lines):
                block.append(b"")
            yield b",\n".join(block)
        if lines:
            yield b"\n"
        yield end


def _lines(rows: dict[str, AnyRow], changed: dict[str, AnyRow | None]) -> list[bytes]:
    if changed.keys().isdisjoint(rows.keys()):
        kept: Iterable[AnyRow] = rows.values()
    else:
        kept = _in_place(rows, changed)
    lines = [row.line for row in kept]
    for row_id, row in changed.items():
        old = rows.get(row_id)
        if row is not None and (old is None or old.sequence != row.sequence):
            lines.append(row.line)
    return lines


def _in_place(rows: dict[str, AnyRow], changed: dict[str, AnyRow | None]) -> Iterator[AnyRow]:
    for row_id, old in rows.items():
        row = changed.get(row_id, old)
        if row is not None and row.sequence == old.sequence:
            yield row


class _OtherForm(Exception):
    """The file is not in the form that this module writes, or an id is in it twice."""


def read_changes(
    path: str,
    tables: Tables,
    content: Iterable[bytes],
    read_all: Callable[[], bytes],
    repairs: Repairs,
) -> PendingChanges:
    """Return the changes that turn the tables into those of a file.

    Lines that did not change are not parsed again. A record that breaks a rule is repaired; one
    that cannot be repaired is kept as it is, and reported when it is read.

    Args:
        path: the file's name, for error messages.
        content: its lines.
        read_all: returns the whole content; called when the file has another form.
        repairs: the repairs of the store.

    Raises:
        JSONDecodeError: it is not JSON; the text has the file, line and column.
        ValidationError: a record has no id, or two records have one id; the text has the file
            and the path to the record.
    """
    try:
        return _difference(tables, _split(content), strict=True)
    except (_OtherForm, ValidationError):
        # Parsing the whole document accepts other forms, and finds where a file is invalid.
        return _difference(tables, parse_document(path, read_all(), repairs), strict=False)


def _split(content: Iterable[bytes]) -> Sections:
    lines = iter(content)
    if next(lines, None) != _HEAD:
        raise _OtherForm
    sections: list[list[bytes]] = []
    for begin, end in _SECTIONS:
        if next(lines, None) != begin:
            raise _OtherForm
        sections.append(_section(lines, end))
    if next(lines, None) is not None:
        raise _OtherForm
    return Sections(*sections)


def _section(lines: Iterator[bytes], end: bytes) -> list[bytes]:
    section: list[bytes] = []
    another = True
    for line in lines:
        if line == end:
            if another and section:
                raise _OtherForm
            return section
        if not another or not line.startswith(b"{"):
            raise _OtherForm
        another = line.endswith(b",\n")
        section.append(line[:-2] if another else line[:-1])
    raise _OtherForm


def _difference(tables: Tables, sections: Sections, *, strict: bool) -> PendingChanges:
    pending = PendingChanges(tables)
    removed, added = _changed(tables.traces, sections.traces)
    pending.remove_traces(removed)
    removed_messages, added_messages = _changed(tables.messages, sections.messages)
    pending.messages.update(dict.fromkeys(row.id for row in removed_messages))
    removed_conversations, added_conversations = _changed(
        tables.conversations, sections.conversations
    )
    pending.conversations.update(dict.fromkeys(row.id for row in removed_conversations))
    # Added rows go to the end of the dict, so that they are applied in the file's order.
    sequences = _Sequences(tables, removed_conversations)
    for line in added_conversations:
        conversation = _read(Conversation, read_conversation, line, strict)
        _refuse_twice(pending.conversations, tables.conversations, conversation.id)
        pending.conversations.pop(conversation.id, None)
        row = ConversationRow(conversation, line, sequences.of(conversation.id))
        pending.conversations[row.id] = row
    sequences = _Sequences(tables, removed_messages)
    for line in added_messages:
        message = _read(Message, read_message, line, strict)
        _refuse_twice(pending.messages, tables.messages, message.id)
        pending.messages.pop(message.id, None)
        pending.messages[message.id] = MessageRow(message, line, sequences.of(message.id))
    sequences = _Sequences(tables, removed)
    for line in added:
        trace = _read(TurnTrace, read_trace, line, strict)
        _refuse_twice(pending.traces, tables.traces, trace.id)
        if pending.trace_of(trace.message_id) is not None:
            raise _OtherForm
        pending.traces.pop(trace.id, None)
        pending.add_trace(TraceRow(trace, line, sequences.of(trace.id)))
    return pending


def _read(
    kind: type[AnyRecord], read: Callable[[bytes], AnyRecord], line: bytes, strict: bool
) -> AnyRecord:
    try:
        return read(line)
    except ValidationError:
        if strict:
            raise
        return stand_in(kind, line)


class _Sequences:
    """Sequences in the order of the file: a known row keeps its own if that order allows it.

    A row that is the start of a page keeps its sequence after the file was read again, as long
    as only this library writes the file.
    """

    def __init__(self, tables: Tables, known: Iterable[Row]) -> None:
        self._next = tables.next_sequence
        self._known = {row.id: row.sequence for row in known}
        self._last = 0

    def of(self, row_id: str) -> int:
        known = self._known.get(row_id, 0)
        self._last = known if known > self._last else self._next()
        return self._last


def _changed(rows: dict[str, AnyRow], lines: list[bytes]) -> tuple[list[AnyRow], list[bytes]]:
    same = 0
    for row, line in zip(rows.values(), lines, strict=False):
        if row.line != line:
            break
        same += 1
    return list(islice(rows.values(), same, None)), lines[same:]


def _refuse_twice(changed: dict[str, AnyRow | None], rows: dict[str, AnyRow], row_id: str) -> None:
    known = changed[row_id] if row_id in changed else rows.get(row_id)
    if known is not None:
        raise _OtherForm
