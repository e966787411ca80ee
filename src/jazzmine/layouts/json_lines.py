"""A record's line in the JSON file, read back into the record."""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache

from jazzmine.records.messages import Conversation, Entity, Message
from jazzmine.records.traces import TurnTrace

__all__ = ["read_conversation", "read_message", "read_trace", "recall_message"]

# Bounded in number and size: 20 MB, if 8,192 messages of the longest kind are asked for.
_CACHED_MESSAGES = 8192
_LONGEST_CACHED_LINE = 2048

read_conversation = Conversation.__pydantic_validator__.validate_json
read_message = Message.__pydantic_validator__.validate_json
read_trace = TurnTrace.__pydantic_validator__.validate_json

# A line says all there is to say of a message, so what is remembered of it cannot be stale.
_remembered = lru_cache(_CACHED_MESSAGES)(read_message)


def recall_message(line: bytes) -> Message:
    """Read a message that is likely to be read again; the caller may change what it gets.

    That pays for one asked for by its id: a long listing would only push those out.
    """
    if len(line) > _LONGEST_CACHED_LINE:
        message: Message = read_message(line)
        return message
    return _detached(_remembered(line))


def _detached(message: Message) -> Message:
    # What model_copy() does, and the containers too: this is the whole cost of a read.
    values = message.__dict__.copy()
    for name in _LISTS_OF_TEXT:
        texts = values[name]
        if texts is not None:
            values[name] = texts.copy()
    values["entities"] = [_detached_entity(entity) for entity in values["entities"]]
    metadata = values["metadata"]
    values["metadata"] = deepcopy(metadata) if metadata else {}
    copy = _new(Message)
    _set(copy, "__dict__", values)
    _set(copy, "__pydantic_fields_set__", message.__pydantic_fields_set__.copy())
    _set(copy, "__pydantic_extra__", None)
    _set(copy, "__pydantic_private__", None)
    return copy


_new = object.__new__
_set = object.__setattr__
_LISTS_OF_TEXT = (
    "explicit_context",
    "invoked_flows",
    "invoked_tools",
    "reasoning_steps",
    "errors",
)


def _detached_entity(entity: Entity) -> Entity:
    copy = entity.model_copy()
    copy.__dict__["attributes"] = entity.attributes.copy()
    return copy
