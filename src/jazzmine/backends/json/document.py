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

One with a search index has `{"version": 1, "search": "english",` as its first line: the index
itself is made when the file is read. A file in another form, such as one that was written by
jazzmine 0.1 or by hand, gets this form at the next write.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, to_json

from jazzmine.backends.sqlite import rows
from jazzmine.errors import ConfigurationError
from jazzmine.records.base import Record
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace

_VERSION = 1


class Kind(NamedTuple):
    """One kind of record.

    Attributes:
        name: that of the section with its records in the file.
        record: the class of the records.
        columns: those of the table in the database.
        values: returns the values of the columns for a record and its JSON.
    """

    name: str
    record: type[Record]
    columns: str
    values: Callable[..., rows.Values]

    @property
    def table(self) -> str:
        """The table with its records in the database."""
        return f"stored_{self.name}"


KINDS = (
    Kind("conversations", Conversation, rows.CONVERSATION_COLUMNS, rows.conversation_values),
    Kind("messages", Message, rows.MESSAGE_COLUMNS, rows.message_values),
    Kind("turn_traces", TurnTrace, rows.TRACE_COLUMNS, rows.trace_values),
)


def content_of(records: Iterable[Iterable[bytes]], search: str | None) -> list[bytes]:
    """Return the content of a file, in blocks.

    Args:
        records: those of each kind as JSON.
        search: the language of the search index, empty for no stems; None if there is none.
    """
    index = "" if search is None else f' "search": {json.dumps(search)},'
    blocks = [b'{"version": %d,%b' % (_VERSION, index.encode())]
    for kind, lines in zip(KINDS, map(b",\n".join, records), strict=True):
        blocks += [b'\n"%b": [\n' % kind.name.encode(), lines, b"\n" if lines else b"", b"],"]
    return [*blocks[:-1], b"]}\n"]


class Document(NamedTuple):
    """The content of a file.

    Attributes:
        records: those of each kind as JSON.
        search: the language of the search index, empty for no stems; None if there is none.
    """

    records: Sequence[Sequence[bytes]]
    search: str | None


def document_of(path: str, content: bytes) -> Document:
    """Return the content of a file, whose records are not validated.

    Args:
        path: the file's name, for error messages.
        content: the whole file.

    Raises:
        JSONDecodeError: it is not JSON; the text has the file, line and column.
        ConfigurationError: it is not a store of this version, or UTF-8 cannot encode a record.
    """
    data = _parsed(path, content)
    names = [kind.name for kind in KINDS]
    if not isinstance(data, dict) or not data.keys() <= {"version", "search", *names}:
        raise ConfigurationError(
            f"{path} is no message store, which is an object with 'conversations', 'messages' and"
            " 'turn_traces'; it was not changed"
        )
    if data.get("version", _VERSION) != _VERSION:
        raise ConfigurationError(
            f"a newer version of jazzmine wrote {path}, in version {data['version']!r} of its form;"
            " it was not changed"
        )
    if not isinstance(data.get("search"), str | None):
        raise invalid(path, "search", "is no language")
    return Document(
        [_records(path, name, data.get(name, [])) for name in names], data.get("search")
    )


def _records(path: str, name: str, section: object) -> list[bytes]:
    if not isinstance(section, list):
        raise invalid(path, name, "is no list")
    try:
        return [to_json(fields) for fields in section]
    except PydanticSerializationError as error:
        raise invalid(path, f"a record of {name}", str(error)) from None


def _parsed(path: str, content: bytes) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise invalid(path, "an object", f"has {twice!r} twice")
        return fields

    try:
        text = content.removeprefix(BOM_UTF8).decode()  # editors on Windows write the mark
        return json.loads(text, object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        before = content[: error.start].decode(errors="replace")
        raise json.JSONDecodeError(f"{path}: not UTF-8", before, len(before)) from None
    except json.JSONDecodeError as error:
        raise json.JSONDecodeError(f"{path}: {error.msg}", error.doc, error.pos) from None
    except RecursionError:
        raise json.JSONDecodeError(f"{path}: nested too deeply", text, 0) from None


def invalid(path: str, record: str, reason: str) -> ConfigurationError:
    """Return the error for a file with a record that breaks a rule."""
    return ConfigurationError(
        f"{path}: {record} breaks a rule: {reason}; the file was not changed. The command"
        f" `jazzmine adopt {path} TO` copies what can be read to a new store"
    )
