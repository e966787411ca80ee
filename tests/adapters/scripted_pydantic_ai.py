"""An agent of Pydantic AI with a scripted model, and its messages and conversations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent, Tool
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationStore
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage


def agent(
    on_question: Callable[[], object] = lambda: None,
    on_call: Callable[[], object] = lambda: None,
    asks: bool = False,
    **more: Any,
) -> Agent[None, str]:
    """Return an agent whose model calls a tool for each new input, and then answers.

    Args:
        on_question: called when the model is asked.
        on_call: called when the tool is called.
        asks: whether a person has to approve the call.
        more: other arguments of the agent.
    """

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        on_question()
        usage = RequestUsage(input_tokens=10, output_tokens=5, cache_read_tokens=4)
        if isinstance(messages[-1].parts[-1], ToolReturnPart | RetryPromptPart):
            return ModelResponse(parts=[TextPart("It rains.")], usage=usage)
        return ModelResponse(parts=[ToolCallPart("weather", {"city": "Lisbon"})], usage=usage)

    def weather(city: str) -> str:
        """Tell the weather."""
        on_call()
        return f"rain in {city}"

    return Agent(FunctionModel(reply), tools=[Tool(weather, requires_approval=asks)], **more)


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
