"""Messages and conversations of Pydantic AI for its tests."""

from __future__ import annotations

from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationStore
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)

__all__ = ["answered", "asked", "loaded", "talk", "texts"]


def asked(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def answered(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def talk(name: str, *texts: str) -> Conversation:
    messages = [(answered if index % 2 else asked)(text) for index, text in enumerate(texts)]
    return Conversation(conversation_id=name, messages=list(messages))


def texts(messages: list[ModelMessage]) -> list[object]:
    return [getattr(message.parts[0], "content", None) for message in messages]


async def loaded(conversations: ConversationStore, name: str) -> list[object]:
    conversation = await conversations.load(name)
    assert conversation is not None
    return texts(conversation.messages)
