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

A file in this very form is read line by line. Any other that holds the same object, one
that was written by jazzmine 0.1 or by hand, is read as a whole, and takes this form when it
is next written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from pydantic import ValidationError

from jazzmine.backends.json.foreign_document import Sections, parse_whole
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


# Joined a few at a time: a block is small enough for its memory to be used again for the
# next, while taking fresh memory for all of a file takes longer than writing it.
_ROWS_A_BLOCK = 128


def file_content(tables: Tables, draft: PendingChanges) -> Iterator[bytes]:
    """Yield the whole file, as it is with the draft upon the tables, in blocks."""
    sections = (
        _lines(tables.conversations, draft.conversations),
        _lines(tables.messages, draft.messages),
        _lines(tables.traces, draft.traces),
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
        if row is not None and (old is None or old.position != row.position):
            lines.append(row.line)
    return lines


def _in_place(rows: dict[str, AnyRow], changed: dict[str, AnyRow | None]) -> Iterator[AnyRow]:
    for row_id, old in rows.items():
        row = changed.get(row_id, old)
        if row is not None and row.position == old.position:
            yield row


class _OtherForm(Exception):
    """The file is not in the form that this module writes, or an id stands in it twice."""


def read_changes(
    path: str,
    tables: Tables,
    content: Iterable[bytes],
    whole: Callable[[], bytes],
    repairs: Repairs,
) -> PendingChanges:
    """Return what has to change in the tables to make them those of a file.

    What stands in the file as it stood before is not parsed again. A record that breaks a rule is
    repaired; one that can't be is kept as it is, and read when it is asked for.

    Args:
        path: the file's name, for the texts of errors.
        content: its lines.
        whole: returns all of it; called when the lines are not in the form written here.
        repairs: those of the store.

    Raises:
        JSONDecodeError: it is not JSON; the text has the file, line and column.
        ValidationError: a record has no id or stands twice; the text has the file, and the
            record's place in it.
    """
    try:
        return _difference(tables, _split(content), strict=True)
    except (_OtherForm, ValidationError):
        # Read as a whole it either is well, or the error can say where it is not.
        return _difference(tables, parse_whole(path, whole(), repairs), strict=False)


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
    draft = PendingChanges(tables)
    removed, added = _changed(tables.traces, sections.traces)
    draft.remove_traces(removed)
    removed_messages, added_messages = _changed(tables.messages, sections.messages)
    draft.messages.update(dict.fromkeys(row.id for row in removed_messages))
    gone, come = _changed(tables.conversations, sections.conversations)
    draft.conversations.update(dict.fromkeys(row.id for row in gone))
    # What is added goes to the end of the draft, so that it is applied in the file's order.
    positions = _Positions(tables, gone)
    for line in come:
        conversation = _read(Conversation, read_conversation, line, strict)
        _refuse_twice(draft.conversations, tables.conversations, conversation.id)
        draft.conversations.pop(conversation.id, None)
        row = ConversationRow(conversation, line, positions.of(conversation.id))
        draft.conversations[row.id] = row
    positions = _Positions(tables, removed_messages)
    for line in added_messages:
        message = _read(Message, read_message, line, strict)
        _refuse_twice(draft.messages, tables.messages, message.id)
        draft.messages.pop(message.id, None)
        draft.messages[message.id] = MessageRow(message, line, positions.of(message.id))
    positions = _Positions(tables, removed)
    for line in added:
        trace = _read(TurnTrace, read_trace, line, strict)
        _refuse_twice(draft.traces, tables.traces, trace.id)
        if draft.trace_of(trace.message_id) is not None:
            raise _OtherForm
        draft.traces.pop(trace.id, None)
        draft.add_trace(TraceRow(trace, line, positions.of(trace.id)))
    return draft


def _read(
    kind: type[AnyRecord], read: Callable[[bytes], AnyRecord], line: bytes, strict: bool
) -> AnyRecord:
    try:
        return read(line)
    except ValidationError:
        if strict:
            raise
        return stand_in(kind, line)


class _Positions:
    """Positions in the file's order: who has one keeps it, if those in front allow.

    So a reader that goes on behind a row finds its place again, as long as nobody but this
    library reorders the file.
    """

    def __init__(self, tables: Tables, known: Iterable[Row]) -> None:
        self._next = tables.next_position
        self._known = {row.id: row.position for row in known}
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
