"""Conversations and their messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from time import time_ns
from typing import Any, ClassVar, Literal, TypeAlias
from uuid import uuid4

from pydantic import Field

from jazzmine.records.base import Record
from jazzmine.records.types import Id, Int64, JsonObject, Text

__all__ = [
    "Conversation",
    "Entity",
    "FoundMessage",
    "Message",
    "MessageOrder",
    "MessageRole",
    "SearchOrder",
    "require_editable",
]

# The order of a page of a conversation's messages.
MessageOrder: TypeAlias = Literal["oldest", "newest"]

# The order of found messages: the best first, or the newest.
SearchOrder: TypeAlias = Literal["relevance", "newest"]


class MessageRole(StrEnum):
    """The author of a message."""

    USER = "user"
    ASSISTANT = "assistant"
    COLLEAGUE_ASSISTANT = "colleague_assistant"
    SYSTEM = "system"
    TOOL = "tool"


# Defaults that depend on the time or on other fields are always written: they would differ at the
# time of reading. jazzmine 0.1 cannot read a conversation without a title.


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
    """A thing that a message mentions.

    Attributes:
        name: the name of the thing.
        attributes: its properties, as texts.
    """

    name: Text
    attributes: list[Text] = Field(default_factory=list)


class Conversation(Record):
    """A conversation between a user and an agent.

    Attributes:
        id: a new one by default.
        user_id: the user, in your own terms.
        agent_id: the agent, in your own terms.
        title: a line for lists of conversations.
        created_at: ms since the Unix epoch, UTC; now by default.
        last_updated_at: ms since the Unix epoch, UTC; `created_at` by default. Lists of
            conversations are sorted by it.
        metadata: anything of your own, as a JSON object.
    """

    always_stored: ClassVar[frozenset[str]] = frozenset({"id", "created_at", "last_updated_at"})
    moments: ClassVar[tuple[str, ...]] = ("created_at", "last_updated_at")

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
        conversation_id: the conversation, which has to be stored before.
        user_id: the user of the conversation, or another author of your own.
        role: the author's role.
        original_content: the text as it was written.
        enhanced_message: the text as the agent understood it, with references resolved.
        explicit_context: texts that the message refers to, such as quotes.
        episode_id: the number of an episode, if the agent counts them.
        sentiment_score: the author's mood, from -1 to 1.
        intent: the aim of the author, as a word of the agent's own.
        entities: the things that the message mentions.
        is_cancellation: whether it cancels the flow in progress.
        is_continuation: whether it goes on with the topic of the message before.
        is_flagged: whether contexts leave it out; `flag_message` sets it.
        timestamp: ms since the Unix epoch, UTC; now by default. Messages are ordered by it.
        invoked_flows: the flows that the agent took to answer.
        invoked_tools: the tools that the message calls.
        reasoning_steps: the agent's thoughts, as texts.
        errors: texts of errors.
        metadata: anything of your own, as a JSON object.
    """

    always_stored: ClassVar[frozenset[str]] = frozenset({"id", "timestamp"})
    moments: ClassVar[tuple[str, ...]] = ("timestamp",)

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


_NOT_EDITABLE = frozenset({"id", "conversation_id", "user_id", "role", "timestamp", "is_flagged"})


def require_editable(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Check the names of the edited fields of a message, and return a copy.

    Raises:
        TypeError: there is no such field, or `edit_message` does not change it.
    """
    for name in fields:
        if name in _NOT_EDITABLE:
            other = "flag_message()" if name == "is_flagged" else "update_message()"
            raise TypeError(f"edit_message() does not change {name!r}; see {other}")
        if name not in Message.model_fields:
            raise TypeError(f"a message has no field {name!r}")
    return dict(fields)


@dataclass(frozen=True)
class FoundMessage:
    """A message that was found by a search.

    Args:
        message: the message.
        score: higher is better, and comparable within one search only; 0.0 with `order="newest"`.
        spans: the places of the query's words in `original_content`, in order: the index of the
            first character, and the index after the last one.
    """

    message: Message
    score: float
    spans: list[tuple[int, int]]
