"""What a conversation consists of: itself, and its messages."""

from __future__ import annotations

from enum import Enum

from pydantic import Field

from jazzmine.records.base import Record
from jazzmine.records.types import Id, Int64, JsonObject, Text

__all__ = ["Conversation", "Entity", "Message", "MessageRole"]


class MessageRole(Enum):
    """Who wrote a message."""

    USER = "user"
    ASSISTANT = "assistant"
    COLLEAGUE_ASSISTANT = "colleague_assistant"
    SYSTEM = "system"


class Entity(Record):
    """Something that a message mentions, and what is said of it."""

    name: Text
    attributes: list[Text] = Field(default_factory=list)


class Conversation(Record):
    """A conversation between a user and an agent; times in ms since the Unix epoch, UTC."""

    id: Id
    user_id: Id
    agent_id: Id
    title: Text
    created_at: Int64
    last_updated_at: Int64
    metadata: JsonObject = Field(default_factory=dict)


class Message(Record):
    """One message of a conversation; `timestamp` in ms since the Unix epoch, UTC."""

    id: Id
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
    timestamp: Int64
    invoked_flows: list[Text] | None = None
    invoked_tools: list[Text] | None = None
    reasoning_steps: list[Text] | None = None
    errors: list[Text] | None = None
    metadata: JsonObject = Field(default_factory=dict)
