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

One with a search index has `{"version": 2, "search": "english",` as its first line: the index
itself is made when the file is read, and a version of this library that does not know of it
refuses the file.

A file in exactly this form is read line by line. Any other file with the same object, such as
one that was written by jazzmine 0.1 or by hand, is parsed at once, and gets this form at the
next write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from jazzmine.backends.sqlite import rows
from jazzmine.backends.sqlite import statements as sql
from jazzmine.errors import ConfigurationError
from jazzmine.records.base import Record, require_stored, snapshot
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace

__all__ = [
    "EMPTY",
    "KINDS",
    "SEPARATOR",
    "Document",
    "Kind",
    "file_content",
    "invalid",
    "other_form",
    "own_form",
]

_HEAD = b'{"version": 1,'
_SEARCH_HEAD = re.compile(rb'\{"version": 2, "search": ("[^"\\]*"),')
_NEWEST_VERSION = 2

SEPARATOR = b",\n"
"""The separator of two records."""

_REASONS_SHOWN = 5


class Kind(NamedTuple):
    """One kind of record.

    Attributes:
        name: that of the section with its records in the file.
        record: the class of the records.
        table, columns: where they are in the database.
        values: returns the values of the columns for a record and its line.
    """

    name: str
    record: type[Record]
    table: str
    columns: str
    values: Callable[..., rows.Values]

    @property
    def begin(self) -> bytes:
        """The line before its records."""
        return b'"%b": [' % self.name.encode()


KINDS = (
    Kind(
        "conversations",
        Conversation,
        "stored_conversations",
        sql.CONVERSATION_COLUMNS,
        rows.conversation_values,
    ),
    Kind("messages", Message, "stored_messages", sql.MESSAGE_COLUMNS, rows.message_values),
    Kind("turn_traces", TurnTrace, "stored_turn_traces", sql.TRACE_COLUMNS, rows.trace_values),
)

# The lines after the records of each kind.
_ENDS = (b"],", b"],", b"]}")

# The text before the records of each kind, and after the last one.
_BETWEEN = (
    *(b"%b\n%b\n" % (end, kind.begin) for end, kind in zip((b"", *_ENDS), KINDS, strict=False)),
    _ENDS[-1] + b"\n",
)


class Document(NamedTuple):
    """The content of a file.

    Attributes:
        lines: the records of each kind as JSON.
        search: the language of the search index, empty for no stems; None if there is none.
    """

    lines: Sequence[Sequence[bytes]]
    search: str | None = None


EMPTY = Document([[] for _ in KINDS])


def file_content(records: Sequence[bytes], search: str | None) -> list[bytes]:
    """Return the content of the file, in blocks.

    Args:
        records: those of each kind, with `SEPARATOR` between them.
        search: as in a `Document`.
    """
    head = _HEAD
    if search is not None:
        head = b'{"version": 2, "search": %b,' % json.dumps(search).encode()
    blocks = [head + _BETWEEN[0]]
    for lines, following in zip(records, _BETWEEN[1:], strict=True):
        blocks += [lines, b"\n" + following] if lines else [following]
    return blocks


def own_form(content: bytes) -> Document | None:
    """Return the content of a file in this form, or None; its records are not validated."""
    lines = content.split(b"\n")
    with_search = _SEARCH_HEAD.fullmatch(lines[0])
    if lines[0] != _HEAD and with_search is None:
        return None
    sections: list[list[bytes]] = []
    rest = iter(lines[1:])
    for kind, end in zip(KINDS, _ENDS, strict=True):
        section = _section(rest, end) if next(rest, None) == kind.begin else None
        if section is None:
            return None
        sections.append(section)
    if list(rest) != [b""]:
        return None
    return Document(sections, None if with_search is None else json.loads(with_search[1]))


def _section(lines: Iterable[bytes], end: bytes) -> list[bytes] | None:
    section: list[bytes] = []
    for line in lines:
        if line == end:
            if section and section[-1].endswith(b","):
                return None
            return [line[:-1] if line.endswith(b",") else line for line in section]
        if not line.startswith(b"{") or (section and not section[-1].endswith(b",")):
            return None
        section.append(line)
    return None


def other_form(path: str, content: bytes) -> Document:
    """Return the content of a file that any program may have written.

    Args:
        path: the file's name, for error messages.
        content: the whole file.

    Raises:
        JSONDecodeError: it is not JSON; the text has the file, line and column.
        ConfigurationError: it is not a store of this version, or a record breaks a rule.
    """
    data = _parsed(path, content)
    if not isinstance(data, dict) or not data.keys() <= {"version", "search", *_names()}:
        raise ConfigurationError(
            f"{path} is no message store, which is an object with 'conversations', 'messages' and"
            " 'turn_traces'; it was not changed"
        )
    if data.get("version", 1) not in range(1, _NEWEST_VERSION + 1):
        raise ConfigurationError(
            f"a newer version of jazzmine wrote {path}, in version {data['version']!r} of its form;"
            " it was not changed"
        )
    search = data.get("search")
    if not isinstance(search, str | None):
        raise invalid(path, "search", "is no language")
    return Document([_lines(path, kind, data.get(kind.name, [])) for kind in KINDS], search)


def _names() -> list[str]:
    return [kind.name for kind in KINDS]


def _parsed(path: str, content: bytes) -> Any:
    try:
        text = content.decode("utf-8-sig")  # editors on Windows put a mark before the text
    except UnicodeDecodeError as error:
        before = content[: error.start].decode(errors="replace")
        raise json.JSONDecodeError(f"{path}: not UTF-8", before, len(before)) from None
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise json.JSONDecodeError(f"{path}: {error.msg}", text, error.pos) from None
    except RecursionError:
        raise json.JSONDecodeError(f"{path}: nested too deeply", text, 0) from None
    except _KeyTwice as error:
        raise invalid(path, "an object", str(error)) from None


class _KeyTwice(Exception):
    """An object has a key twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _KeyTwice(f"has {next(key for key in keys if keys.count(key) > 1)!r} twice")
    return fields


def _lines(path: str, kind: Kind, stored: Any) -> list[bytes]:
    if not isinstance(stored, list):
        raise invalid(path, kind.name, "is no list")
    lines, ids = [], set()
    for index, fields in enumerate(stored):
        name = fields.get("id") if isinstance(fields, dict) else None
        shown = f"{kind.name}[{index}]" + (f" (id {name!r})" if isinstance(name, str) else "")
        try:
            record: Any = kind.record.__pydantic_validator__.validate_python(fields)
            require_stored(record)
        except ValidationError as error:
            raise invalid(path, shown, _reasons(error)) from None
        if record.id in ids:
            raise invalid(path, shown, "an earlier record has the same id")
        ids.add(record.id)
        lines.append(snapshot(record, kind.record).json)
    return lines


def _reasons(error: ValidationError) -> str:
    """Return which rules a record breaks, without its values."""
    lines = error.errors(include_url=False, include_input=False)[:_REASONS_SHOWN]
    return "; ".join(": ".join([*map(str, line["loc"]), line["msg"]]) for line in lines)


def invalid(path: str, record: str, reason: str) -> ConfigurationError:
    """Return the error for a file with a record that breaks a rule."""
    return ConfigurationError(
        f"{path}: {record} breaks a rule: {reason}; the file was not changed. The command"
        f" `jazzmine adopt {path} TO` copies what can be read to a new store"
    )
