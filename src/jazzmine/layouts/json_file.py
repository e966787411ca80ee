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

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from jazzmine.layouts.json_draft import Draft
from jazzmine.layouts.json_lines import parse_message, read_conversation, read_trace
from jazzmine.layouts.json_tables import ConversationRow, MessageRow, Row, Tables, TraceRow
from jazzmine.records.base import AnyRecord, Record, seal
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace

__all__ = ["file_content", "read_tables"]

_HEAD = b'{"version": 1,\n'
_SECTIONS = (
    (b'"conversations": [\n', b"],\n"),
    (b'"messages": [\n', b"],\n"),
    (b'"turn_traces": [\n', b"]}\n"),
)

AnyRow = TypeVar("AnyRow", bound=Row)


def file_content(tables: Tables, draft: Draft) -> bytes:
    """Return the whole file as it is with the draft upon the tables."""
    sections = (
        _lines(tables.conversations, draft.conversations),
        _lines(tables.messages, draft.messages),
        _lines(tables.traces, draft.traces),
    )
    parts = [_HEAD]
    for (begin, end), lines in zip(_SECTIONS, sections, strict=True):
        parts += (begin, b",\n".join(lines), b"\n" if lines else b"", end)
    return b"".join(parts)


def _lines(rows: dict[str, AnyRow], changed: dict[str, AnyRow | None]) -> list[bytes]:
    if changed.keys().isdisjoint(rows):
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
    """The file is not in the form that this module writes."""


def read_tables(path: str, content: Iterable[bytes], whole: Callable[[], bytes]) -> Tables:
    """Build the tables out of a file.

    Args:
        path: the file's name, for the texts of errors.
        content: its lines.
        whole: returns all of it; called when the lines are not in the form written here.

    Raises:
        JSONDecodeError: it is not JSON; the text has the file, line and column.
        ValidationError: a record breaks a rule or stands twice; the text has the file, and
            the record's place in it.
    """
    try:
        return _read_lines(content)
    except (_OtherForm, ValidationError):
        # Read as a whole it either is well, or the error can say where it is not.
        return _read_whole(path, whole())


def _read_lines(content: Iterable[bytes]) -> Tables:
    tables = Tables()
    lines = iter(content)
    if next(lines, None) != _HEAD:
        raise _OtherForm
    for (begin, end), put in zip(_SECTIONS, _readers(tables), strict=True):
        if next(lines, None) != begin:
            raise _OtherForm
        _read_section(lines, end, put)
    if next(lines, None) is not None:
        raise _OtherForm
    return tables


def _readers(tables: Tables) -> tuple[Callable[[bytes], bool], ...]:
    def conversation(line: bytes) -> bool:
        row = ConversationRow(read_conversation(line), line, tables.next_position())
        known = row.id in tables.conversations
        tables.put_conversation(row.id, row)
        return not known

    def message(line: bytes) -> bool:
        row = MessageRow(parse_message(line), line, tables.next_position())
        known = row.id in tables.messages
        tables.put_message(row.id, row)
        return not known

    def trace(line: bytes) -> bool:
        row = TraceRow(read_trace(line), line, tables.next_position())
        known = row.id in tables.traces or row.message_id in tables.trace_of_message
        tables.put_trace(row.id, row)
        return not known

    return conversation, message, trace


def _read_section(lines: Iterator[bytes], end: bytes, put: Callable[[bytes], bool]) -> None:
    another = True
    first = True
    for line in lines:
        if line == end:
            if another and not first:
                raise _OtherForm
            return
        first = False
        if not another or not line.startswith(b"{"):
            raise _OtherForm
        another = line.endswith(b",\n")
        if not put(line[:-2] if another else line[:-1]):
            raise _OtherForm
    raise _OtherForm


class _StoredFile(Record):
    version: Literal[1] = 1
    conversations: list[Conversation] = Field(default_factory=list)
    messages: list[Message] = Field(default_factory=list)
    turn_traces: list[TurnTrace] = Field(default_factory=list)


def _read_whole(path: str, content: bytes) -> Tables:
    data = _parse(path, content)
    try:
        stored = _StoredFile.model_validate(data)
    except ValidationError as error:
        raise _located(path, data, error) from None
    tables = Tables()
    conversation, message, trace = _readers(tables)
    _put_all(path, "conversations", stored.conversations, Conversation, conversation)
    _put_all(path, "messages", stored.messages, Message, message)
    _put_all(path, "turn_traces", stored.turn_traces, TurnTrace, trace)
    return tables


def _parse(path: str, content: bytes) -> Any:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].decode()
        raise json.JSONDecodeError(f"{path}: not UTF-8", before, len(before)) from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise json.JSONDecodeError(f"{path}: {error.msg}", text, error.pos) from None
    except RecursionError:
        raise json.JSONDecodeError(f"{path}: nested too deeply", text, 0) from None


def _put_all(
    path: str,
    section: str,
    records: list[AnyRecord],
    kind: type[AnyRecord],
    put: Callable[[bytes], bool],
) -> None:
    for index, record in enumerate(records):
        if not put(seal(record, kind).json):
            reason = PydanticCustomError("duplicate_id", "this id, or its message, stands twice")
            detail = InitErrorDetails(type=reason, loc=(section, index), input=record.model_dump())
            raise ValidationError.from_exception_data(path, [detail])


def _located(path: str, data: Any, error: ValidationError) -> ValidationError:
    """Say the same with the file for a title, and the record's id beside its index."""
    details = []
    for line in error.errors(include_url=False):
        reason = PydanticCustomError(
            line["type"],
            "{said}{of}",
            {"said": line["msg"], "of": _record_named(data, line["loc"])},
        )
        details.append(InitErrorDetails(type=reason, loc=line["loc"], input=line["input"]))
    return ValidationError.from_exception_data(path, details)


def _record_named(data: Any, loc: tuple[int | str, ...]) -> str:
    try:
        return f" (in the record with id {data[loc[0]][loc[1]]['id']!r})"
    except (IndexError, KeyError, TypeError):
        return ""
