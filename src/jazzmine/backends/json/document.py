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

One with an index of words has `{"version": 2, "search": "english",` as its first line: the index
itself is made when the file is read, and a version of this library that does not know of it
refuses the file.

A file in exactly this form is read line by line. Any other file with the same object, such as
one that was written by jazzmine 0.1 or by hand, is parsed at once, and gets this form at the
next write.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from pydantic import ValidationError

from jazzmine.backends.json.foreign_document import Sections, parse_document, stand_in
from jazzmine.backends.sqlite import rows, search
from jazzmine.backends.sqlite import statements as sql
from jazzmine.records.base import Record, require_stored
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import Repairs
from jazzmine.records.traces import TurnTrace
from jazzmine.records.types import MAX_INT, MIN_INT

__all__ = [
    "EMPTY_FILE",
    "Blocks",
    "changed_blocks",
    "file_content",
    "forget_changes",
    "read_file",
    "watch_changes",
]

_HEAD = b'{"version": 1,\n'
_SEARCH_HEAD = re.compile(rb'\{"version": 2, "search": ("[^"\\]*"),\n')


class _Kind(NamedTuple):
    """One kind of record.

    Args:
        begin, end: the lines before and after its records in the file.
        record: the class of the records.
        table, columns: where they are in the database.
        values: returns the values of the columns for a record and its line.
    """

    begin: bytes
    end: bytes
    record: type[Record]
    table: str
    columns: str
    values: Callable[..., rows.Values]


_KINDS = (
    _Kind(
        b'"conversations": [\n',
        b"],\n",
        Conversation,
        "stored_conversations",
        sql.CONVERSATION_COLUMNS,
        rows.conversation_values,
    ),
    _Kind(
        b'"messages": [\n',
        b"],\n",
        Message,
        "stored_messages",
        sql.MESSAGE_COLUMNS,
        rows.message_values,
    ),
    _Kind(
        b'"turn_traces": [\n',
        b"]}\n",
        TurnTrace,
        "stored_turn_traces",
        sql.TRACE_COLUMNS,
        rows.trace_values,
    ),
)

EMPTY_FILE = (_HEAD, *(line for kind in _KINDS for line in (kind.begin, kind.end)))
"""The lines of a file without records."""

Blocks: TypeAlias = dict[str, dict[int, bytes]]
"""For each table, the lines of its records, joined: those of so many numbers each."""

_NUMBERS_A_BLOCK = 32


def watch_changes(connection: sqlite3.Connection) -> None:
    """Note which blocks change from now on: the others need not be read to write the file."""
    connection.execute("CREATE TEMP TABLE changed (name TEXT, block INTEGER)")
    for kind in _KINDS:
        for event, row in (("INSERT", "new"), ("UPDATE", "new"), ("DELETE", "old")):
            connection.execute(f"""
                CREATE TEMP TRIGGER {kind.table}_{event} AFTER {event} ON main.{kind.table} BEGIN
                    INSERT INTO changed
                    VALUES ('{kind.table}', {row}.seq / {_NUMBERS_A_BLOCK});
                END""")


def forget_changes(connection: sqlite3.Connection) -> None:
    """Forget which blocks have changed."""
    connection.execute("DELETE FROM temp.changed")


def changed_blocks(connection: sqlite3.Connection, blocks: Blocks | None) -> Blocks:
    """Return the blocks of a database.

    Args:
        connection: the database.
        blocks: those that it had when the changes were forgotten last; None reads all.
    """
    if blocks is None:
        return {kind.table: _read_blocks(connection, kind.table) for kind in _KINDS}
    found = {table: dict(lines) for table, lines in blocks.items()}
    for table, number in connection.execute(
        "SELECT DISTINCT name, block FROM temp.changed"
    ).fetchall():
        first = number * _NUMBERS_A_BLOCK
        found[table].pop(number, None)
        found[table].update(_read_blocks(connection, table, (first, first + _NUMBERS_A_BLOCK - 1)))
    return found


def _read_blocks(
    connection: sqlite3.Connection, table: str, numbers: tuple[int, int] = (MIN_INT, MAX_INT)
) -> dict[int, bytes]:
    query = (
        f"SELECT seq / {_NUMBERS_A_BLOCK}, CAST(body AS BLOB) FROM {table}"
        " WHERE seq BETWEEN ? AND ? ORDER BY seq"
    )
    lines: dict[int, list[bytes]] = {}
    for block, line in connection.execute(query, numbers):
        lines.setdefault(block, []).append(line)
    return {block: b",\n".join(some) for block, some in lines.items()}


def file_content(blocks: Blocks, language: str | None = None) -> list[bytes]:
    """Return the content of the file, in parts.

    Args:
        blocks: the records.
        language: that of the index of words; None if there is none.
    """
    content = [_HEAD]
    if language is not None:
        content = [b'{"version": 2, "search": %b,\n' % json.dumps(language).encode()]
    for kind in _KINDS:
        lines = blocks[kind.table]
        content.append(kind.begin)
        for number in sorted(lines):
            content += (lines[number], b",\n")
        if lines:
            content[-1] = b"\n"
        content.append(kind.end)
    return content


class _OtherForm(Exception):
    """The file is not in the form that this module writes, or an id is in it twice."""


def read_file(
    connection: sqlite3.Connection,
    path: str,
    content: Iterable[bytes],
    read_all: Callable[[], bytes],
    repairs: Repairs,
) -> None:
    """Make the records of a database those of a file, in one transaction.

    Lines that did not change are not parsed again. A record that breaks a rule is repaired; one
    that cannot be repaired is kept as it is, and reported when it is read.

    Args:
        connection: the database; no foreign keys are enforced meanwhile, because jazzmine 0.1
            stored messages without their conversation.
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
        _store(connection, _split(content), strict=True)
    except (_OtherForm, ValidationError, sqlite3.IntegrityError):
        # Parsing the whole document accepts other forms, and finds where a file is invalid.
        _store(connection, parse_document(path, read_all(), repairs), strict=False)


def _split(content: Iterable[bytes]) -> Sections:
    lines = iter(content)
    head = next(lines, b"")
    with_search = _SEARCH_HEAD.fullmatch(head)
    if head != _HEAD and with_search is None:
        raise _OtherForm
    sections: list[list[bytes]] = []
    for kind in _KINDS:
        if next(lines, None) != kind.begin:
            raise _OtherForm
        sections.append(_section(lines, kind.end))
    if next(lines, None) is not None:
        raise _OtherForm
    language = None if with_search is None else with_search[1][1:-1].decode()
    conversations, messages, traces = sections
    return Sections(conversations, messages, traces, language)


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


def _store(connection: sqlite3.Connection, sections: Sections, *, strict: bool) -> None:
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        connection.execute("BEGIN")
        search.make(connection, sections.search)
        for kind, lines in zip(_KINDS, sections.records, strict=True):
            _store_kind(connection, kind, lines, strict)
        if sections.search is not None:
            search.fill(connection, MAX_INT)
            search.index_pending(connection)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("PRAGMA foreign_keys = ON")


def _store_kind(
    connection: sqlite3.Connection, kind: _Kind, lines: Sequence[bytes], strict: bool
) -> None:
    """Make the records of a kind those of some lines.

    A record that is the start of a page keeps its number, as long as only this library writes the
    file: the first ones that are the same stay, and a known one keeps its own if the order of the
    file allows that.
    """
    query = f"SELECT seq, id, CAST(body AS BLOB) FROM {kind.table} ORDER BY seq"
    stored = connection.execute(query).fetchall()
    same = 0
    for row, line in zip(stored, lines, strict=False):
        if row[2] != line:
            break
        same += 1
    last = stored[same - 1][0] if same else 0
    unused = _highest(connection, kind)
    connection.execute(f"DELETE FROM {kind.table} WHERE seq > ?", [last])
    numbers = {_text(row[1]): row[0] for row in islice(stored, same, None)}
    marks = ", ".join("?" for _ in kind.columns.split(", "))
    statement = f"INSERT INTO {kind.table} (seq, {kind.columns}) VALUES (?, {marks})"
    for line in islice(lines, same, None):
        record = _read(kind.record, line, strict)
        number = numbers.get(record.id, 0)
        if number <= last:
            number = unused = unused + 1
        last = number
        connection.execute(statement, [number, *kind.values(record, line)])


def _highest(connection: sqlite3.Connection, kind: _Kind) -> int:
    """Return the highest number that a record of a kind has or had."""
    query = (
        f"SELECT max(coalesce(max(seq), 0), (SELECT last FROM message_numbers)) FROM {kind.table}"
    )
    highest: int = connection.execute(query).fetchone()[0]
    return highest


def _read(kind: type[Record], line: bytes, strict: bool) -> Any:
    try:
        record = kind.__pydantic_validator__.validate_json(line)
        require_stored(record)
    except ValidationError:
        if strict:
            raise
        return stand_in(kind, line)
    return record


def _text(stored: bytes | str) -> str:
    return stored if isinstance(stored, str) else stored.decode()
