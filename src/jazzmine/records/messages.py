"""Conversations and their messages."""

from __future__ import annotations

from enum import Enum
from time import time_ns
from typing import Any, ClassVar
from uuid import uuid4

from pydantic import Field

from jazzmine.records.base import Record
from jazzmine.records.types import Id, Int64, JsonObject, Text

__all__ = ["Conversation", "Entity", "Message", "MessageRole"]


class MessageRole(Enum):
    """The author of a message."""

    USER = "user"
    ASSISTANT = "assistant"
    COLLEAGUE_ASSISTANT = "colleague_assistant"
    SYSTEM = "system"
    TOOL = "tool"


# Defaults that depend on the time or on other fields are always written: the default at the
# time of reading would differ, and jazzmine 0.1 cannot read a conversation without a title.


def _new_id(fields: dict[str, Any]) -> str:
    return str(uuid4())


def _now(fields: dict[str, Any]) -> int:
    return time_ns() // 1_000_000


def _created_at(fields: dict[str, Any]) -> int:
    created_at: int = fields["created_at"]
    return created_at


def _no_title(fields: dict[str, Any]) -> str:
    return ""


class Entity(Record):
    """A thing that a message mentions, and its attributes in the message."""

    name: Text
    attributes: list[Text] = Field(default_factory=list)


class Conversation(Record):
    """A conversation between a user and an agent; times in ms since the Unix epoch, UTC.

    Attributes:
        id: a new one by default.
        created_at: now by default.
        last_updated_at: `created_at` by default.
    """

    always_stored: ClassVar[frozenset[str]] = frozenset({"id", "created_at", "last_updated_at"})

    id: Id = Field(default_factory=_new_id)
    user_id: Id
    agent_id: Id
    title: Text = Field(default_factory=_no_title)
    created_at: Int64 = Field(default_factory=_now)
    last_updated_at: Int64 = Field(default_factory=_created_at)
    metadata: JsonObject = Field(default_factory=dict)


class Message(Record):
    """One message of a conversation.

    Attributes:
        id: a new one by default.
        timestamp: ms since the Unix epoch, UTC; now by default.
    """

    always_stored: ClassVar[frozenset[str]] = frozenset({"id", "timestamp"})

    id: Id = Field(default_factory=_new_id)
    conversation_id: Id
    user_id: Id
    role: MessageRole
    original_content: Text
    enhanced_message: Text = ""
    explicit_context: list[Text] | None = None
    episode_id: Int64 = 0
    sentiment_score: float = Field(default=0.0, ge=-1.0, le=1.0)
    intent: Text = "unknown"
    entities: list[Entity] = Field(default_factory=list)
    is_cancellation: bool = False
    is_continuation: bool = True
    is_flagged: bool = False
    timestamp: Int64 = Field(default_factory=_now)
    invoked_flows: list[Text] | None = None
    invoked_tools: list[Text] | None = None
    reasoning_steps: list[Text] | None = None
    errors: list[Text] | None = None
    metadata: JsonObject = Field(default_factory=dict)
