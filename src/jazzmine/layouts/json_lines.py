"""A record's line in the JSON file, read back into the record."""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache
from typing import TypeVar

from jazzmine.records.base import Record
from jazzmine.records.messages import Conversation, Entity, Message
from jazzmine.records.traces import TurnTrace

__all__ = ["read_conversation", "read_message", "read_trace", "recall_message"]

AnyRecord = TypeVar("AnyRecord", bound=Record)

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


_LISTS_OF_TEXT = (
    "explicit_context",
    "invoked_flows",
    "invoked_tools",
    "reasoning_steps",
    "errors",
)


def _detached(message: Message) -> Message:
    copy = _copied(message)
    values = copy.__dict__
    for name in _LISTS_OF_TEXT:
        if values[name] is not None:
            values[name] = values[name].copy()
    values["entities"] = [_detached_entity(entity) for entity in values["entities"]]
    metadata = values["metadata"]
    values["metadata"] = deepcopy(metadata) if metadata else {}
    return copy


def _detached_entity(entity: Entity) -> Entity:
    copy = _copied(entity)
    copy.__dict__["attributes"] = entity.attributes.copy()
    return copy


def _copied(record: AnyRecord) -> AnyRecord:
    # What model_copy() does, in a quarter of its time: this is most of what a read costs.
    copy = _new(type(record))
    _set(copy, "__dict__", record.__dict__.copy())
    _set(copy, "__pydantic_fields_set__", record.__pydantic_fields_set__.copy())
    _set(copy, "__pydantic_extra__", None)
    _set(copy, "__pydantic_private__", None)
    return copy


_new = object.__new__
_set = object.__setattr__
