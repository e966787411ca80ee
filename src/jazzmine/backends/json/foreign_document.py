"""Parse a JSON store's file that this library did not write, and repair its records."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from jazzmine.records.base import Record, require_stored, snapshot
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import Repairs, parse_json, plain_value
from jazzmine.records.traces import TurnTrace
from jazzmine.records.types import MAX_INT

__all__ = ["Sections", "parse_document", "stand_in"]


AnyRecord = TypeVar("AnyRecord", bound=Record)

_SECTIONS = ("conversations", "messages", "turn_traces")
_KINDS = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}

# A bracket, or a string, in which brackets mean nothing.
_TOKEN = re.compile(r'[\[\]{}]|"(?:[^"\\]|\\.)*"')
_DEEPEST = 100

# Each record of a file that another program wrote may have an error.
_ERRORS_SHOWN = 10


class Sections(NamedTuple):
    """The lines of a file without their commas, one list for each kind of record.

    Attributes:
        search: the language of the index of words, empty for no stems; None if there is none.
    """

    conversations: list[bytes]
    messages: list[bytes]
    traces: list[bytes]
    search: str | None = None

    @property
    def records(self) -> tuple[list[bytes], ...]:
        """The lines of each kind."""
        return self.conversations, self.messages, self.traces


class _StoredFile(Record):
    version: Literal[1, 2] = 1
    search: str | None = None
    conversations: list[Conversation] = Field(default_factory=list)
    messages: list[Message] = Field(default_factory=list)
    turn_traces: list[TurnTrace] = Field(default_factory=list)


class _Identified(BaseModel):
    model_config = ConfigDict(extra="allow")

    id: str


class _Frame(Record):
    version: Literal[1, 2] = 1
    search: str | None = None
    conversations: list[_Identified] = Field(default_factory=list)
    messages: list[_Identified] = Field(default_factory=list)
    turn_traces: list[_Identified] = Field(default_factory=list)


def parse_document(path: str, content: bytes, repairs: Repairs) -> Sections:
    """Return the records of a file as lines in the form that this library writes.

    Args:
        path: the file's name, for error messages.
        content: the whole file.
        repairs: the repairs of the store.

    Raises:
        JSONDecodeError: it is not JSON; the text has the file, line and column.
        ValidationError: it is not a store, a record has no id, or two records have one id; the
            text has the file and the path to the record.
    """
    text = _decoded(path, content)
    try:
        return _sections(path, _parse(path, text), repairs)
    except RecursionError:
        # Newer versions of Python parse what is nested too deeply for the steps after that.
        flat = _flattened(text)
    try:
        return _sections(path, _parse(path, flat), repairs)
    except RecursionError:
        raise json.JSONDecodeError(f"{path}: nested too deeply", text, 0) from None


def _sections(path: str, data: Any, repairs: Repairs) -> Sections:
    try:
        stored = _StoredFile.model_validate(data)
        for record in (*stored.conversations, *stored.messages, *stored.turn_traces):
            require_stored(record)
    except ValidationError:
        return _repaired(path, data, repairs)
    _refuse_duplicates(path, "conversations", "id", [r.id for r in stored.conversations])
    _refuse_duplicates(path, "messages", "id", [r.id for r in stored.messages])
    _refuse_duplicates(path, "turn_traces", "id", [r.id for r in stored.turn_traces])
    owners = [trace.message_id for trace in stored.turn_traces]
    _refuse_duplicates(path, "turn_traces", "message_id", owners)
    return Sections(
        [snapshot(record, Conversation).json for record in stored.conversations],
        [snapshot(record, Message).json for record in stored.messages],
        [snapshot(record, TurnTrace).json for record in stored.turn_traces],
        stored.search,
    )


def _repaired(path: str, data: Any, repairs: Repairs) -> Sections:
    try:
        _Frame.model_validate(data)
    except ValidationError as error:
        _require_store(path, data)
        raise _located(path, data, error) from None
    for section in _SECTIONS:
        _refuse_duplicates(path, section, "id", [raw["id"] for raw in data.get(section, ())])
    owners = [raw.get("message_id") for raw in data.get("turn_traces", ())]
    _refuse_duplicates(path, "turn_traces", "message_id", [o for o in owners if type(o) is str])
    return Sections(
        _repaired_lines(path, "conversations", Conversation, data, repairs),
        _repaired_lines(path, "messages", Message, data, repairs),
        _repaired_lines(path, "turn_traces", TurnTrace, data, repairs),
        data.get("search"),
    )


def _repaired_lines(
    path: str, section: str, kind: type[AnyRecord], data: dict[str, Any], repairs: Repairs
) -> list[bytes]:
    stored: Sequence[dict[str, Any]] = data.get(section, ())
    taken = {raw["id"] for raw in stored}
    lines = []
    for index, raw in enumerate(stored):
        try:
            record = kind.__pydantic_validator__.validate_python(raw)
            require_stored(record)
        except ValidationError as error:
            _refuse_newer_fields(path, (section, index), data, error)
            record = _repaired_record(kind, raw, taken, repairs)
        lines.append(_unread_line(raw) if record is None else snapshot(record, kind).json)
    return lines


def _refuse_newer_fields(
    path: str, place: tuple[str, int], data: Any, error: ValidationError
) -> None:
    """Raise a `ValidationError` if a record is refused because of a field that it has not got."""
    for line in error.errors(include_url=False, include_input=False):
        if line["type"] == "extra_forbidden":
            said = "This version of jazzmine has no such field; the file was not changed"
            text = f"{said}{_record_named(data, place)}"
            reason = PydanticCustomError("newer_version", "{text}", {"text": text})
            detail = InitErrorDetails(type=reason, loc=(*place, *line["loc"]), input=None)
            raise ValidationError.from_exception_data(path, [detail], hide_input=True)


def _repaired_record(
    kind: type[AnyRecord], raw: dict[str, Any], taken: set[str], repairs: Repairs
) -> AnyRecord | None:
    """Return the record with an id that no other has, or None if it cannot be repaired."""
    try:
        record: Any = repairs.record(kind, raw)
    except ValidationError:
        return None
    if record.id != raw["id"]:
        while record.id in taken:
            record.id += "-2"
        taken.add(record.id)
    return cast("AnyRecord", record)


def _unread_line(raw: dict[str, Any]) -> bytes:
    # JSON has no NaN, and UTF-8 no lone surrogates: they are replaced, all else is kept.
    return json.dumps(plain_value(raw, -MAX_INT), ensure_ascii=False).encode()


def _decoded(path: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].decode()
        raise json.JSONDecodeError(f"{path}: not UTF-8", before, len(before)) from None


def _parse(path: str, text: str) -> Any:
    keys: list[str] = []

    def new_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys[:] = [key for key, _ in pairs]
        return dict(pairs)

    try:
        data = parse_json(text, new_object)
    except json.JSONDecodeError as error:
        raise json.JSONDecodeError(f"{path}: {error.msg}", text, error.pos) from None
    if isinstance(data, dict) and len(keys) > len(data):  # the keys of the outermost object
        twice = next(key for key in data if keys.count(key) > 1)
        reason = PydanticCustomError("duplicate", "the file has this section twice")
        detail = InitErrorDetails(type=reason, loc=(twice,), input=None)
        raise ValidationError.from_exception_data(path, [detail], hide_input=True)
    return data


def _flattened(text: str) -> str:
    """Replace what is nested too deeply for Python's parser by its JSON text, as a string."""
    parts: list[str] = []
    depth = copied = 0
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth == _DEEPEST:
                parts.append(text[copied : token.start()])
                copied = token.start()
        elif token[0] in "]}":
            if depth == _DEEPEST:
                parts.append(json.dumps(text[copied : token.end()]))
                copied = token.end()
            depth -= 1
    return "".join([*parts, text[copied:]])


def _require_store(path: str, data: Any) -> None:
    """Raise a `ValidationError` if another program or a newer version wrote the document."""
    has = _what_no_store_has(data)
    version = data.get("version") if type(data) is dict else None
    if type(version) is int and version > 2 and (not has or _SECTIONS[0] in data):
        kind = "newer_version"
        text = f"a newer version of jazzmine wrote this file, in version {version} of its form"
    elif has:
        kind = "not_a_store"
        text = (
            f"this file is no message store: it {has}, and a store is an object with"
            " 'conversations', 'messages' and 'turn_traces'"
        )
    else:
        return
    reason = PydanticCustomError(kind, "{text}; it was not changed", {"text": text})
    detail = InitErrorDetails(type=reason, loc=(), input=None)
    raise ValidationError.from_exception_data(path, [detail], hide_input=True)


def _what_no_store_has(data: Any) -> str:
    if type(data) is not dict:
        return f"is {_KINDS.get(type(data), 'a number')}"
    keys = [repr(key[:40]) for key in data if key not in _Frame.model_fields]
    if keys:
        return f"has {', '.join(keys[:3])}{' and more' if keys[3:] else ''}"
    sections = [data.get(name) for name in _SECTIONS]
    records = [raw for section in sections if type(section) is list for raw in section]
    if records and not any(type(raw) is dict and {"id", "user_id"} & raw.keys() for raw in records):
        return "has no record with 'id' or 'user_id'"
    return ""


def _refuse_duplicates(path: str, section: str, name: str, values: list[str]) -> None:
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            reason = PydanticCustomError("duplicate", "an earlier record has the same")
            detail = InitErrorDetails(type=reason, loc=(section, index, name), input=value)
            raise ValidationError.from_exception_data(path, [detail])
        seen.add(value)


def _located(path: str, data: Any, error: ValidationError) -> ValidationError:
    """Return the same error with the file as its title and the record's id in each line."""
    details = []
    for line in error.errors(include_url=False)[:_ERRORS_SHOWN]:
        said = "Input should be an object" if line["type"] == "model_type" else line["msg"]
        reason = PydanticCustomError(
            line["type"], "{said}{of}", {"said": said, "of": _record_named(data, line["loc"])}
        )
        details.append(InitErrorDetails(type=reason, loc=line["loc"], input=line["input"]))
    if error.error_count() > _ERRORS_SHOWN:
        text = f"{error.error_count() - _ERRORS_SHOWN} more errors like these"
        reason = PydanticCustomError("more_errors", "{text}", {"text": text})
        details.append(InitErrorDetails(type=reason, loc=(), input=None))
    return ValidationError.from_exception_data(path, details)


def _record_named(data: Any, loc: tuple[int | str, ...]) -> str:
    try:
        name = data[loc[0]][loc[1]]["id"]
    except (IndexError, KeyError, TypeError):
        return ""
    return f" (in the record with id {name!r})" if type(name) is str else ""


# Defaults of the fields by which a record is found and sorted.
_FOUND_BY: dict[type[Record], dict[str, Any]] = {
    Conversation: {"user_id": "", "agent_id": "", "last_updated_at": 0},
    Message: {
        "conversation_id": "",
        "user_id": "",
        "timestamp": 0,
        "is_flagged": False,
        "role": "",
    },
    TurnTrace: {
        "message_id": "",
        "conversation_id": "",
        "user_id": "",
        "agent_id": "",
        "turn_number": 0,
        "started_at_ms": 0,
        "total_latency_ms": 0,
    },
}


def stand_in(kind: type[AnyRecord], line: bytes) -> AnyRecord:
    """Return an unreadable record with only the fields by which it is found and sorted."""
    raw = parse_json(line)
    values = {"id": raw["id"]}
    for name, default in _FOUND_BY[kind].items():
        value = raw.get(name)
        values[name] = value if type(value) is type(default) else default
    if values.get("message_id") == "":
        # A message has at most one trace, and this trace must not become that of a message.
        values["message_id"] = f"\0{raw['id']}"
    return kind.model_construct(**values)
