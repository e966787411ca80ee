"""Read a line of the JSON file into its record."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ValidationError

from jazzmine.records.base import Record, require_stored
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import parse_json, unreadable
from jazzmine.records.traces import TurnTrace

__all__ = ["read_conversation", "read_message", "read_trace", "stand_in"]

AnyRecord = TypeVar("AnyRecord", bound=Record)

_validated_conversation = Conversation.__pydantic_validator__.validate_json
_validated_message = Message.__pydantic_validator__.validate_json
_validated_trace = TurnTrace.__pydantic_validator__.validate_json


def read_conversation(line: bytes) -> Conversation:
    """Return the conversation of a line.

    Raises:
        ValidationError: the conversation breaks a rule; the text has its id and what to do.
    """
    try:
        conversation: Conversation = _validated_conversation(line)
        require_stored(conversation)
    except ValidationError as error:
        raise unreadable(Conversation, parse_json(line).get("id"), error) from None
    return conversation


def read_message(line: bytes) -> Message:
    """Return the message of a line, as in `read_conversation`."""
    try:
        message: Message = _validated_message(line)
        require_stored(message)
    except ValidationError as error:
        raise unreadable(Message, parse_json(line).get("id"), error) from None
    return message


def read_trace(line: bytes) -> TurnTrace:
    """Return the trace of a line, as in `read_conversation`."""
    try:
        trace: TurnTrace = _validated_trace(line)
        require_stored(trace)
    except ValidationError as error:
        raise unreadable(TurnTrace, parse_json(line).get("id"), error) from None
    return trace


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
