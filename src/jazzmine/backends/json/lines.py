"""Read a line of the JSON file into its record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from jazzmine.records.base import Record, require_stored
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import parse_json, unreadable
from jazzmine.records.traces import TurnTrace

__all__ = ["read_conversation", "read_message", "read_trace", "stand_in"]

AnyRecord = TypeVar("AnyRecord", bound=Record)


def _reader(kind: type[AnyRecord]) -> Callable[[bytes], AnyRecord]:
    """Return a function that reads a line into a record of a class.

    The function raises `ValidationError` if the record breaks a rule; the text has its id, and
    says what to do.
    """
    validated = kind.__pydantic_validator__.validate_json

    def read(line: bytes) -> AnyRecord:
        try:
            record: AnyRecord = validated(line)
            require_stored(record)
        except ValidationError as error:
            raise unreadable(kind, parse_json(line).get("id"), error) from None
        return record

    return read


read_conversation: Callable[[bytes], Conversation] = _reader(Conversation)
read_message: Callable[[bytes], Message] = _reader(Message)
read_trace: Callable[[bytes], TurnTrace] = _reader(TurnTrace)


# Defaults of the fields by which a record is found and sorted.
_FOUND_BY: dict[type[Record], dict[str, Any]] = {
    Conversation: {"user_id": "", "agent_id": "", "last_updated_at": 0},
    Message: {"conversation_id": "", "user_id": "", "timestamp": 0, "is_flagged": False},
    TurnTrace: {
        "message_id": "",
        "conversation_id": "",
        "user_id": "",
        "agent_id": "",
        "turn_number": 0,
        "started_at_ms": 0,
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
