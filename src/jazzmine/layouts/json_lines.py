"""A record's line in the JSON file, read back into the record."""

from __future__ import annotations

from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace

__all__ = ["read_conversation", "read_message", "read_trace"]

read_conversation = Conversation.__pydantic_validator__.validate_json
read_message = Message.__pydantic_validator__.validate_json
read_trace = TurnTrace.__pydantic_validator__.validate_json
