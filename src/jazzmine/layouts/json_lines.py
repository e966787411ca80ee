"""A record's line in the JSON file, read back into the record."""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache

from jazzmine.records.messages import Conversation, Entity, Message
from jazzmine.records.traces import TurnTrace

__all__ = ["parse_message", "read_conversation", "read_message", "read_trace"]

# An agent reads the newest messages again in every turn, so those are kept parsed. Bounded
# in number and size: about 20 MB if 8,192 messages of the longest kind are read.
_CACHED_MESSAGES = 8192
_LONGEST_CACHED_LINE = 2048

read_conversation = Conversation.__pydantic_validator__.validate_json
read_trace = TurnTrace.__pydantic_validator__.validate_json
parse_message = Message.__pydantic_validator__.validate_json

# A line says all there is to say of a message, so what is remembered of it cannot be stale.
_remembered = lru_cache(_CACHED_MESSAGES)(parse_message)


def read_message(line: bytes) -> Message:
    """Read a message from its line; the caller may change what it gets."""
    if len(line) > _LONGEST_CACHED_LINE:
        message: Message = parse_message(line)
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
